// The page of one task's charts.
import { reason } from "./answers.js";
import { named, number } from "./columns.js";
import { make, need } from "./dom.js";
import { follow } from "./live.js";
import { notesOf } from "./looks.js";
import { Panel } from "./panel.js";
import { save } from "./picture.js";
import { pointTable, wholeTable } from "./point.js";
import { shown } from "./times.js";
import { asked, local, recall, remember } from "./view.js";

const form = need("view", HTMLFormElement);
const area = need("charts", HTMLElement);
const trouble = need("trouble", HTMLElement);
const status = need("live", HTMLElement);
const reader = need("reader", HTMLElement);
const point = need("point", HTMLElement);
const states = make("p", "", "states");
const lines = "mayReadLines" in area.dataset ? (area.dataset.lines ?? null) : null;
const task = need("task", HTMLSelectElement).value;

/** @type {import("./columns.js").ChartData | null} */
let data = null;
/** @type {Panel[]} */
let panels = [];
/** @type {Set<string>} */
const hidden = new Set();
let at = -1;
let how = "";
/** @type {AbortController | null} */
let asking = null;
let outdated = false;

/** Ask for what the form says, and draw it; the old picture stays until the new one is there. */
async function load() {
  asking?.abort();
  const own = (asking = new AbortController());
  area.setAttribute("aria-busy", "true");
  try {
    const answer = await fetch(`${document.body.dataset.base}/charts/data?${asked(form)}`, { signal: own.signal });
    const found = answer.ok ? await answer.json() : null;
    const said = found ? [] : [make("p", await reason(answer), "problem wrong")];
    if (own.signal.aborted) return;
    trouble.replaceChildren(...said);
    if (found) draw(found);
  } catch (error) {
    if (own.signal.aborted) return;
    trouble.replaceChildren(make("p", "The server does not answer; what is shown is older.", "problem wrong"));
    if (!(error instanceof TypeError && /fetch/i.test(error.message))) throw error;
  }
  if (asking === own) asking = null;
  area.removeAttribute("aria-busy");
  if (outdated) refresh(0);
}

/**
 * The numbers changed: ask again, but never for two answers at a time.
 * @param {number} commit the newest one; 0 if it is not known
 */
function refresh(commit) {
  if (commit && data?.commit === commit) return;
  outdated = asking !== null;
  if (!outdated) void load();
}

/** @param {import("./columns.js").ChartData} found */
function draw(found) {
  const time = at >= 0 && data ? data.times[at] : null;
  data = found;
  if (panels.map((each) => each.metric.name).join() !== found.metrics.map((each) => each.name).join()) {
    for (const each of panels) each.plot?.destroy();
    panels = found.metrics.map((metric) => new Panel(metric, { zoom, moved, toggle }));
    for (const each of panels) each.plotted.addEventListener("keydown", press);
    for (const each of panels) each.plotted.addEventListener("click", () => openPoint(false));
    area.replaceChildren(...panels.map((each) => each.root), states);
  }
  redraw();
  at = time === null ? -1 : found.times.indexOf(time);
  if (!found.series.length) states.textContent = "There are no results in this time: choose another, or everything.";
  need("since", HTMLInputElement).value = local(found.since);
  need("until", HTMLInputElement).value = local(found.until);
  const csv = need("csv", HTMLAnchorElement);
  csv.href = `${csv.href.split("?")[0]}?format=csv&limit=1000000&${found.results}`;
  const pin = need("pin", HTMLAnchorElement);
  pin.href = `${pin.href.split("?")[0]}?${asked(form)}`;
  const embed = need("embed", HTMLAnchorElement);
  const bare = asked(form);
  bare.set("bare", "true");
  embed.href = `${location.pathname}?${bare}`;
  if (!point.hidden) fillPoint();
  fillTable();
  say();
}

function redraw() {
  if (!data) return;
  for (const each of panels) each.show(data, need("shape", HTMLSelectElement).value, hidden);
  states.textContent = notesOf(data);
}

function say() {
  const said = { live: "live", polling: "asks every 10 s", over: "logged out: load the page again to log in" };
  const commit = data?.commit ? ` · as of commit ${data.commit}` : "";
  status.textContent = (said[/** @type {keyof said} */ (how)] ?? "") + commit;
}

/**
 * Show the time from `since` to `until`, in ms.
 * @param {number} since
 * @param {number} until
 */
function zoom(since, until) {
  set("since", new Date(since).toISOString());
  set("until", new Date(until).toISOString());
  show();
}

/**
 * @param {string} name of a hidden field
 * @param {string} value
 */
function set(name, value) {
  const field = form.querySelector(`input[type=hidden][name=${name}]`);
  if (field instanceof HTMLInputElement) field.value = value;
}

/** The view changed: the address says so, and the picture follows. */
function show() {
  const wanted = asked(form);
  remember(wanted);
  need("zoom-out", HTMLButtonElement).disabled = !wanted.has("since");
  void load();
}

/** @param {number | null} time that the crosshair is at */
function moved(time) {
  at = data && time !== null ? data.times.indexOf(time) : -1;
  for (const each of panels) each.point(at);
}

/** @param {string} name of the series to show or hide */
function toggle(name) {
  if (!hidden.delete(name)) hidden.add(name);
  for (const each of panels) each.press(hidden);
  // A million values take longer to draw than a click may take: the buttons are painted first.
  requestAnimationFrame(() => window.setTimeout(redraw));
}

/** @param {KeyboardEvent} event */
function press(event) {
  if (!data?.times.length) return;
  const last = data.times.length - 1;
  const steps = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -last, End: last };
  const step = steps[/** @type {keyof steps} */ (event.key)];
  const middle = data.times[at < 0 ? last : at];
  const length = data.until - data.since;
  if (step !== undefined) pointAt(Math.min(last, Math.max(0, (at < 0 ? last : at) + step)));
  else if (event.key === "+") zoom(Math.round(middle - length / 4), Math.round(middle + length / 4));
  else if (event.key === "-") zoom(data.since - length / 2, data.until + length / 2);
  else if (event.key === "Enter") openPoint(true);
  else return;
  event.preventDefault();
}

/** @param {number} wanted the number of a time */
function pointAt(wanted) {
  const own = data;
  if (!own) return;
  for (const { plot } of panels) plot?.setCursor({ left: plot.valToPos(own.times[wanted], "x"), top: 10 }, false);
  moved(own.times[wanted]);
  const values = own.series.slice(0, 5).flatMap((series) =>
    own.metrics.map((each) => `${named(series)} ${each.name} ${number(series.values[each.name][wanted])}`));
  reader.textContent = [shown(own.times[wanted]), own.states[own.stateOf[wanted]] ?? "no results", ...values].join(", ");
}

/** @param {boolean} focus whether the reader goes there */
function openPoint(focus) {
  if (at < 0 || !data) return;
  pinned = data.times[at];
  point.hidden = false;
  fillPoint();
  if (focus) need("point-heading", HTMLElement).focus();
}

/** @type {number} */
let pinned = 0;

function fillPoint() {
  const own = data ? data.times.indexOf(pinned) : -1;
  if (!data || own < 0) return;
  need("point-heading", HTMLElement).textContent = shown(pinned);
  point.querySelector(".scroll")?.replaceChildren(pointTable(data, own, lines));
}

function fillTable() {
  const whole = need("table", HTMLDetailsElement);
  if (whole.open && data) whole.querySelector(".scroll")?.replaceChildren(wholeTable(data));
}

form.addEventListener("change", (event) => {
  const field = event.target;
  if (field instanceof HTMLSelectElement && field.name === "task") {
    location.assign(`${location.pathname}?task=${encodeURIComponent(field.value)}`);
    return;
  }
  if (field instanceof HTMLSelectElement && field.name === "last") {
    set("since", "");
    set("until", "");
  }
  if (field instanceof HTMLInputElement && field.type === "datetime-local" && field.value) {
    const times = ["since", "until"].map((name) => new Date(need(name, HTMLInputElement).value));
    if (times.some((each) => Number.isNaN(each.getTime()))) return;
    set("since", times[0].toISOString());
    set("until", times[1].toISOString());
  }
  show();
});
form.addEventListener("submit", (event) => {
  event.preventDefault();
  show();
});
addEventListener("popstate", () => {
  recall(form);
  void load();
});
need("zoom-out", HTMLButtonElement).addEventListener("click", () => {
  if (data) zoom(data.since - (data.until - data.since) / 2, data.until + (data.until - data.since) / 2);
});
need("zoom-out", HTMLButtonElement).disabled = !new URLSearchParams(location.search).has("since");
need("png", HTMLButtonElement).addEventListener("click", () => save(task, panels));
need("table", HTMLDetailsElement).addEventListener("toggle", fillTable);
new ResizeObserver(() => panels.forEach((each) => each.resize())).observe(area);
new MutationObserver(() => {
  for (const each of panels) each.forget();
  redraw();
}).observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  for (const each of panels) each.forget();
  redraw();
});
follow([task], (_, commit) => refresh(commit), (state) => {
  how = state;
  say();
});
await load();
