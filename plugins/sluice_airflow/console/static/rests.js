// What a live page may cost the server: it rests after each answer, and asks for nothing while nobody sees it.

/**
 * The pause after an answer, as a multiple of the server's work for it: a page costs at most a twentieth of a core,
 * however much it shows.
 */
const RESTS = 19;
/** What a request costs the server besides the reading that it tells of, in ms of CPU. */
const REQUEST = 10;
/** The longest rest, in ms. */
const LONGEST = 60_000;
/** When to ask again after the server did not answer, in ms. */
const AGAIN = 10_000;

export class Rests {
  /** @param {() => void} work asks for what is wanted; it is called when it may be asked for again */
  constructor(work) {
    this.work = work;
    this.until = 0;
    this.timer = 0;
    document.addEventListener("visibilitychange", () => this.work());
  }

  /** Whether nobody sees the page. */
  get unseen() {
    return document.hidden;
  }

  /** Whether the page has rested, and somebody sees it; if not, `work` is called then. */
  over() {
    window.clearTimeout(this.timer);
    const rest = this.until - performance.now();
    if (rest > 0) this.timer = window.setTimeout(this.work, rest);
    return rest <= 0 && !this.unseen;
  }

  /** @param {number | null} cost what the last answers cost, in ms of CPU; null if the server did not answer */
  begin(cost) {
    this.until = performance.now() + (cost === null ? AGAIN : Math.min(LONGEST, RESTS * cost));
  }
}

/**
 * What the server spent on an answer, in ms of CPU: it says so in `Server-Timing: cpu;dur=12.3`.
 * @param {Response} answer
 */
export function costOf(answer) {
  return REQUEST + Number(/cpu;dur=([\d.]+)/.exec(answer.headers.get("Server-Timing") ?? "")?.[1] ?? 0);
}
