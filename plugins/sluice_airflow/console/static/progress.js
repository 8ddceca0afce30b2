// Parts of a page that change while something goes on: asked for again until it ended.
import { parsed } from "./dom.js";
import { morph } from "./morph.js";
import { localise } from "./times.js";

const PAUSE_MS = 2_000;
/** Logged out, or gone: that does not change by itself. */
const OVER = [401, 403, 404];

/** @param {HTMLElement} part an element with data-progress, the address */
async function again(part) {
  if (!part.querySelector("[data-running]")) return;
  if (document.hidden || (await load(part))) window.setTimeout(() => void again(part), PAUSE_MS);
}

/**
 * @param {HTMLElement} part
 * @returns {Promise<boolean>} whether to ask again
 */
async function load(part) {
  try {
    const answer = await fetch(part.dataset.progress ?? "", { headers: { Accept: "text/html" } });
    if (!answer.ok) return !OVER.includes(answer.status);
    const fresh = parsed(await answer.text());
    for (const { name, value } of part.attributes) fresh.setAttribute(name, value);
    localise(fresh);
    morph(part, fresh);
  } catch {
    // The server is away: what was shown stays, and is asked for again.
  }
  return true;
}

/** @type {NodeListOf<HTMLElement>} */
const parts = document.querySelectorAll("[data-progress]");
for (const part of parts) window.setTimeout(() => void again(part), PAUSE_MS);
