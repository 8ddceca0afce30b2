// The page about the platform: asks for the picture again and again, and keeps the last one if nobody answers.
import { make, need, parsed } from "./dom.js";
import { morph } from "./morph.js";
import { localise, shown } from "./times.js";

/** How often each part is asked for. */
const PAUSES = { now: 3_000, tables: 30_000 };
const PATIENCE_MS = 10_000;

const reach = need("reach", HTMLParagraphElement);
/** By how much the server's clock is ahead of this one, in ms. */
let ahead = 0;
/** When the last picture came, in ms since 1970; and whether the server answered the last time. */
let came = Date.now();
let answers = true;

/** @param {number} seconds */
function span(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  /** @type {[number, string][]} */
  const units = [[86_400, "d"], [3_600, "h"], [60, "min"], [1, "s"]];
  const first = Math.max(0, units.findIndex(([size], index) => whole >= size || index === units.length - 1));
  return units
    .slice(first, first + 2)
    .map(([size, unit], index) => ({ amount: Math.floor((index ? whole % (units[first]?.[0] ?? 1) : whole) / size), unit }))
    .filter(({ amount }, index) => amount || !index)
    .map(({ amount, unit }) => `${amount} ${unit}`)
    .join(" ");
}

/** @param {ParentNode} root */
function age(root) {
  for (const each of root.querySelectorAll("time[data-age]")) {
    const at = Date.parse(each.getAttribute("datetime") ?? "");
    const text = `${span((Date.now() + ahead - at) / 1000)} ago`;
    if (each.textContent !== text) each.textContent = text;
    const title = shown(at);
    if (each.getAttribute("title") !== title) each.setAttribute("title", title);
  }
}

/**
 * Show a part as the server made it.
 * @param {HTMLElement} part
 * @param {string} html
 */
function show(part, html) {
  const fresh = parsed(html);
  for (const { name, value } of part.attributes) fresh.setAttribute(name, value);
  localise(fresh);
  const at = Number(fresh.querySelector("[data-at]")?.getAttribute("data-at"));
  if (at) ahead = at * 1000 - Date.now();
  age(fresh);
  morph(part, fresh);
}

/**
 * What a page that tells of a failure says, without its full stop.
 * @param {string} html
 */
function sentence(html) {
  return (parsed(html).querySelector(".lead")?.textContent ?? "").trim().replace(/\.$/, "");
}

/** @param {HTMLElement} part @returns {Promise<string>} why it failed; empty if it did not */
async function load(part) {
  try {
    const signal = AbortSignal.timeout(PATIENCE_MS);
    const answer = await fetch(part.dataset.now ?? "", { headers: { Accept: "text/html" }, signal });
    const text = await answer.text();
    if (answer.status === 401 || answer.status === 403) return "You are logged out.";
    if (!answer.ok) return `The server answers: ${sentence(text) || answer.statusText || answer.status}.`;
    show(part, text);
    return "";
  } catch {
    return "The server does not answer.";
  }
}

/** @param {string} why */
function tell(why) {
  document.body.toggleAttribute("data-away", Boolean(why));
  if (!why) {
    came = Date.now();
    if (!answers) reach.replaceChildren();
  } else if (reach.dataset.why !== why || answers) {
    const said = `${why} This is the picture of ${shown(came)}. It is asked for again every ${PAUSES.now / 1000} s. `;
    reach.replaceChildren(said);
    if (why.includes("logged out")) {
      const link = make("a", "Log in");
      if (link instanceof HTMLAnchorElement) link.href = reach.dataset.logIn ?? "";
      reach.append(link);
    }
  }
  reach.dataset.why = why;
  answers = !why;
}

/**
 * Ask for a part for ever, but not while nobody sees the page.
 * @param {"now" | "tables"} id
 */
function follow(id) {
  const part = need(id, HTMLDivElement);
  let timer = 0;
  const again = async () => {
    window.clearTimeout(timer);
    if (!document.hidden) {
      const why = await load(part);
      if (id === "now") tell(why);
    }
    window.clearTimeout(timer);
    timer = window.setTimeout(() => void again(), PAUSES[id]);
  };
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) void again();
  });
  timer = window.setTimeout(() => void again(), PAUSES[id]);
}

document.addEventListener("click", (event) => {
  const link = event.target instanceof Element ? event.target.closest("a") : null;
  if (!link) return;
  const there = link.hash.startsWith("#do-") ? document.getElementById(link.hash.slice(1)) : null;
  if (there instanceof HTMLDetailsElement) there.open = true;
  if (!link.hasAttribute("data-airflow") || window.parent === window || event.ctrlKey || event.metaKey) return;
  // A run is a page of Airflow's own: Airflow itself goes there, not the frame that this page is in.
  event.preventDefault();
  const outside = window.parent.document.createElement("a");
  outside.href = link.href;
  window.parent.document.body.append(outside);
  outside.click();
  outside.remove();
});

const first = document.querySelector("[data-at]");
ahead = Number(first?.getAttribute("data-at")) * 1000 - Date.now() || 0;
age(document);
window.setInterval(() => age(document), 1_000);
follow("now");
follow("tables");
