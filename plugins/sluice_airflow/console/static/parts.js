// Parts of a page that the server makes by themselves: loaded after the page, and again when they changed.
import { costOf } from "./rests.js";
import { localise } from "./times.js";

/**
 * Load one part; what it showed before stays if that fails.
 * @param {HTMLElement} part an element with data-part, the address
 * @returns {Promise<number | null>} what it cost the server; null if the server does not answer
 */
async function load(part) {
  let cost = null;
  try {
    const answer = await fetch(part.dataset.part ?? "", { headers: { Accept: "text/html" } });
    cost = costOf(answer);
    const text = await answer.text();
    if (answer.ok || !part.dataset.loaded) {
      part.innerHTML = answer.ok ? text : "";
      if (!answer.ok) part.append(note(answer.status === 401 ? "You are logged out." : "Not known now."));
      part.dataset.loaded = "yes";
      localise(part);
    }
  } catch {
    if (!part.dataset.loaded) part.replaceChildren(note("The server does not answer."));
  }
  part.removeAttribute("aria-busy");
  return cost;
}

/** @param {string} text */
function note(text) {
  const made = document.createElement("p");
  made.className = "note";
  made.textContent = text;
  return made;
}

/**
 * Load parts in their order.
 * @param {HTMLElement[]} parts
 * @param {number} atOnce how many at a time; an answer's cost has that of others in it that are made meanwhile
 * @returns {Promise<number | null>} what they cost the server together; null if it did not answer for one of them
 */
export async function loadAll(parts, atOnce) {
  const left = [...parts];
  /** @type {(number | null)[]} */
  const costs = [];
  const work = async () => {
    for (let part = left.shift(); part; part = left.shift()) costs.push(await load(part));
  };
  await Promise.all(Array.from({ length: atOnce }, work));
  return costs.reduce((sum, each) => (sum === null || each === null ? null : sum + each), 0);
}
