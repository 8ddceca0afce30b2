// Parts of a page that change while something goes on: asked for again until it ended.
import { localise } from "./times.js";

const PAUSE_MS = 2_000;

/** @param {HTMLElement} part an element with data-progress, the address */
async function again(part) {
  if (!part.querySelector("[data-running]")) return;
  try {
    const answer = await fetch(part.dataset.progress ?? "", { headers: { Accept: "text/html" } });
    if (answer.ok) {
      part.innerHTML = await answer.text();
      localise(part);
    }
  } catch {
    // The server is away: what was shown stays, and is asked for again.
  }
  window.setTimeout(() => void again(part), PAUSE_MS);
}

/** @type {NodeListOf<HTMLElement>} */
const parts = document.querySelectorAll("[data-progress]");
for (const part of parts) window.setTimeout(() => void again(part), PAUSE_MS);
