// The page that changes a dashboard: its charts are put in order by buttons, or by drawing them.
import { need } from "./dom.js";

/** @param {HTMLElement} rows the list */
function arrange(rows) {
  rows.addEventListener("click", (event) => {
    const button = event.target instanceof Element ? event.target.closest("button[value]") : null;
    if (!(button instanceof HTMLButtonElement)) return;
    event.preventDefault(); // without this script the button sends the form
    const row = rowOf(button);
    if (row) move(row, button.value.startsWith("earlier") ? -1 : 1);
  });
  for (const grip of rows.querySelectorAll(".grip")) {
    if (grip instanceof HTMLElement) grip.addEventListener("pointerdown", (event) => draw(grip, event));
  }
}

/** @param {Element} inside */
function rowOf(inside) {
  return inside.closest("li");
}

/**
 * Change places with a neighbour. The neighbour is what moves in the page, so that the focus, or the pointer that
 * draws the row, stays with the row.
 * @param {HTMLElement} row
 * @param {number} step
 */
function move(row, step) {
  const other = step < 0 ? row.previousElementSibling : row.nextElementSibling;
  if (other && step < 0) row.after(other);
  else if (other) row.before(other);
  row.scrollIntoView({ block: "nearest" });
  const title = row.querySelector("input[name=title]");
  const all = [...(row.parentElement?.children ?? [])];
  const name = title instanceof HTMLInputElement ? title.value : "It";
  need("said", HTMLElement).textContent = `${name}: ${all.indexOf(row) + 1} of ${all.length}`;
}

/**
 * Follow the pointer until it is let go.
 * @param {HTMLElement} grip
 * @param {PointerEvent} begun
 */
function draw(grip, begun) {
  const row = rowOf(grip);
  if (!row || begun.button) return;
  begun.preventDefault();
  grip.setPointerCapture(begun.pointerId);
  row.classList.add("drawn");
  const follow = (/** @type {PointerEvent} */ event) => {
    const [before, after] = [row.previousElementSibling, row.nextElementSibling];
    if (before && event.clientY < middle(before)) move(row, -1);
    else if (after && event.clientY > middle(after)) move(row, 1);
  };
  const end = () => {
    row.classList.remove("drawn");
    grip.removeEventListener("pointermove", follow);
  };
  grip.addEventListener("pointermove", follow);
  grip.addEventListener("lostpointercapture", end, { once: true });
}

/** @param {Element} row */
function middle(row) {
  const { top, height } = row.getBoundingClientRect();
  return top + height / 2;
}

const list = document.getElementById("rows");
if (list) arrange(list);
