// What every page does: times in the reader's zone, and its parts.
import { follow } from "./live.js";
import { loadAll } from "./parts.js";
import { localise } from "./times.js";

localise(document);
/** @type {HTMLElement[]} */
const parts = [...document.querySelectorAll("[data-part]")];
void loadAll(parts);

const named = parts.filter((part) => part.dataset.task);
follow(
  named.map((part) => part.dataset.task ?? ""),
  (names) => void loadAll(named.filter((part) => names.includes(part.dataset.task ?? ""))),
);
