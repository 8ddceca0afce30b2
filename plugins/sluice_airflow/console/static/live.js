// Told by the server when numbers change; asks now and then where it cannot be told.

/** How often to ask while there are no events. */
const POLL_MS = 10_000;

/**
 * Call `changed` with the names of the tasks whose numbers changed, until the page goes. The first call says how
 * things stand: `commit` is the newest one. It is 0 where it is not known.
 * `state` hears how: "live", "polling" or "over" (the session ended).
 * @param {string[]} tasks
 * @param {(names: string[], commit: number) => void} changed
 * @param {(how: "live" | "polling" | "over") => void} [state]
 */
export function follow(tasks, changed, state = () => {}) {
  if (!tasks.length) return;
  let timer = 0;
  const poll = () => {
    if (timer) return;
    state("polling");
    timer = window.setInterval(() => changed(tasks, 0), POLL_MS);
  };
  const stop = () => {
    window.clearInterval(timer);
    timer = 0;
  };
  const query = tasks.map((name) => `task=${encodeURIComponent(name)}`).join("&");
  const source = new EventSource(`${document.body.dataset.api}/events?${query}`);
  source.onopen = () => {
    stop();
    state("live");
  };
  // A browser connects again by itself, but not after an answer such as 503: then only asking is left.
  source.onerror = poll;
  /** @param {MessageEvent<string>} event */
  const told = (event) => {
    /** @type {{tasks: Record<string, number>, commit?: number}} */
    const news = JSON.parse(event.data);
    changed(Object.keys(news.tasks), news.commit ?? 0);
  };
  for (const kind of ["commit", "publication", "backfill", "superseded"]) source.addEventListener(kind, told);
  source.addEventListener("end", () => {
    source.close();
    stop();
    state("over");
  });
  addEventListener("pagehide", () => {
    source.close();
    stop();
  });
}
