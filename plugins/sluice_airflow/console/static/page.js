// What every page does: times in the reader's zone, and its parts.
import { follow } from "./live.js";
import { loadAll } from "./parts.js";
import { Rests } from "./rests.js";
import { localise } from "./times.js";

localise(document);
/** @type {NodeListOf<HTMLElement>} */
const found = document.querySelectorAll("[data-part]");
/** How many parts are asked for at a time at first: the server reads a few answers at once, for everybody. */
const AT_ONCE = 3;
/** Parts to be asked for: at first all, then those whose numbers changed, one after the other. */
const stale = new Set(found);
const rests = new Rests(() => void work());
let loading = false;
let first = true;

/** Ask for what is stale, but not twice at a time. */
async function work() {
  if (loading || !stale.size || !rests.over()) return;
  loading = true;
  const wanted = [...stale];
  stale.clear();
  const cost = await loadAll(wanted, first ? AT_ONCE : 1);
  // Whoever opens a page is not made to wait for news of it.
  if (!first) rests.begin(cost);
  first = loading = false;
  void work();
}

const named = [...found].filter((part) => part.dataset.task);
follow(
  named.map((part) => part.dataset.task ?? ""),
  (names) => {
    for (const part of named) if (names.includes(part.dataset.task ?? "")) stale.add(part);
    void work();
  },
);
void work();
