// Parts of a page that the server makes by themselves: loaded after the page, and again when they changed.
import { localise } from "./times.js";

/** How many parts are asked for at a time: the server reads a few answers at once, for everybody. */
const AT_ONCE = 3;

/**
 * Load one part; what it showed before stays if that fails.
 * @param {HTMLElement} part an element with data-part, the address
 */
async function load(part) {
  try {
    const answer = await fetch(part.dataset.part ?? "", { headers: { Accept: "text/html" } });
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
}

/** @param {string} text */
function note(text) {
  const made = document.createElement("p");
  made.className = "note";
  made.textContent = text;
  return made;
}

/**
 * Load parts, a few at a time, in their order.
 * @param {HTMLElement[]} parts
 */
export async function loadAll(parts) {
  const left = [...parts];
  const work = async () => {
    for (let part = left.shift(); part; part = left.shift()) await load(part);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
}
