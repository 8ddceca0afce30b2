// The page of a dashboard: its charts follow one stream of events, and do not all ask at once.
import { need } from "./dom.js";
import { follow } from "./live.js";
import { Tile } from "./tile.js";

/** Charts that are asked for at a time when they come into view. */
const AT_ONCE = 3;
/**
 * Later they are asked for one after the other, and after each the page rests so many times as long as the server
 * worked for the answer: it costs at most a twentieth of a core, however many charts it has.
 */
const RESTS = 19;
/** What a request costs the server besides the reading that it tells of, in ms of CPU. */
const REQUEST = 10;
/** The longest rest, in ms. */
const LONGEST = 60_000;
/** When to ask again after the server did not answer, in ms. */
const AGAIN = 10_000;

const board = document.getElementById("board");
const reader = need("reader", HTMLElement);
const status = need("live", HTMLElement);
/** @type {NodeListOf<HTMLElement>} */
const areas = document.querySelectorAll("[data-address]");
const tiles = [...areas].map((area) => new Tile(area, reader));
/** @type {Set<Tile>} those whose numbers changed, the longest ago first */
const outdated = new Set();
/** Whether it is known which tiles are in view. */
let looked = false;
let running = 0;
let restsUntil = 0;
let timer = 0;

/** Ask for what is in view and was never asked for; else for one whose numbers changed. */
function work() {
  if (document.hidden || !looked) return;
  while (running < AT_ONCE) {
    const tile = tiles.find((each) => each.inView && !each.asked) ?? (running ? undefined : next());
    if (!tile) break;
    void run(tile);
  }
  if (!running && !tiles.some((each) => each.inView && !each.asked)) board?.removeAttribute("aria-busy");
}

/** The next one to be asked for again, once the page has rested. */
function next() {
  for (const tile of outdated) if (tile.current) outdated.delete(tile);
  const tile = [...outdated].find((each) => each.inView);
  if (!tile) return undefined;
  const rest = restsUntil - performance.now();
  window.clearTimeout(timer);
  if (rest > 0) {
    timer = window.setTimeout(work, rest);
    return undefined;
  }
  outdated.delete(tile);
  return tile;
}

/** @param {Tile} tile */
async function run(tile) {
  running++;
  let answered = false;
  try {
    answered = await tile.load();
    if (!answered) tell(tile, Infinity);
  } finally {
    running--;
    restsUntil = performance.now() + (answered ? Math.min(LONGEST, RESTS * (REQUEST + tile.cost)) : AGAIN);
    work();
  }
}

/**
 * @param {Tile} tile
 * @param {number} commit
 */
function tell(tile, commit) {
  tile.told = Math.max(tile.told, commit);
  outdated.add(tile);
}

/**
 * @param {string[]} names of tasks whose numbers changed
 * @param {number} commit the newest one; 0 if it is not known
 */
function changed(names, commit) {
  for (const tile of tiles) if (names.includes(tile.task)) tell(tile, commit || Infinity);
  work();
}

const watch = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    const tile = tiles.find((each) => each.area === entry.target);
    if (tile) tile.inView = entry.isIntersecting;
  }
  looked = true;
  work();
}, { rootMargin: "150px" });
for (const each of tiles) watch.observe(each.area);
document.addEventListener("visibilitychange", work);
if (board) new ResizeObserver(() => tiles.forEach((each) => each.resize())).observe(board);
const forget = () => tiles.forEach((each) => each.forget());
new MutationObserver(forget).observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", forget);
follow([...new Set(tiles.map((each) => each.task))], changed, (how) => {
  status.textContent = { live: "live", polling: "asks every 10 s", over: "logged out: load the page again to log in" }[how];
});
