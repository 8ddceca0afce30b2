// What every page does: times in the reader's zone, and its parts.
import { follow } from "./live.js";
import { loadAll } from "./parts.js";
import { localise } from "./times.js";

localise(document);
/** @type {NodeListOf<HTMLElement>} */
const found = document.querySelectorAll("[data-part]");
const parts = [...found];
/** @type {Promise<void>} one load after the other */
let loading = loadAll(parts);
/** @type {Set<string>} tasks whose numbers changed since they were asked for */
const changed = new Set();

/** @param {string[]} names of tasks */
function refresh(names) {
  const idle = !changed.size;
  for (const name of names) changed.add(name);
  if (!idle) return;
  loading = loading.then(() => {
    const stale = named.filter((part) => changed.has(part.dataset.task ?? ""));
    changed.clear();
    return loadAll(stale);
  });
}

const named = parts.filter((part) => part.dataset.task);
follow(
  named.map((part) => part.dataset.task ?? ""),
  (names) => refresh(names),
);
