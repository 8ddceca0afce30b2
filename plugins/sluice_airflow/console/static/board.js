// The page of a dashboard: its charts follow one stream of events, and do not all ask at once.
import { need } from "./dom.js";
import { follow } from "./live.js";
import { Rests } from "./rests.js";
import { Tile } from "./tile.js";

/** Charts that are asked for at a time when they come into view. Later it is one after the other, with rests. */
const AT_ONCE = 3;

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
const rests = new Rests(work);

/** Ask for what is in view and was never asked for; else for one whose numbers changed. */
function work() {
  if (rests.unseen || !looked) return;
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
  if (!tile || !rests.over()) return undefined;
  outdated.delete(tile);
  return tile;
}

/** @param {Tile} tile */
async function run(tile) {
  running++;
  /** @type {number | null} */
  let cost = null;
  try {
    cost = await tile.load();
    if (cost === null) tell(tile, Infinity);
  } finally {
    running--;
    rests.begin(cost);
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
if (board) new ResizeObserver(() => tiles.forEach((each) => each.resize())).observe(board);
const forget = () => tiles.forEach((each) => each.forget());
new MutationObserver(forget).observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", forget);
follow([...new Set(tiles.map((each) => each.task))], changed, (how) => {
  status.textContent = { live: "live", polling: "asks every 10 s", over: "logged out: load the page again to log in" }[how];
});
