// The page of one task's charts.
import { ask } from "./answers.js";
import { named, number, shows } from "./columns.js";
import { make, need } from "./dom.js";
import { follow } from "./live.js";
import { notesOf } from "./looks.js";
import { Panel, placeOf } from "./panel.js";
import { save } from "./picture.js";
import { pointTable, wholeTable } from "./point.js";
import { Rests } from "./rests.js";
import { shown } from "./times.js";
import { asked, local, recall, remember } from "./view.js";

const form = need("view", HTMLFormElement);
const area = need("charts", HTMLElement);
const trouble = need("trouble", HTMLElement);
const status = need("how", HTMLElement);
const asOf = need("commit", HTMLElement);
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
/** The newest commit that an event named since the page asked; infinite for news without one, 0 for none. */
let told = Infinity;
const rests = new Rests(work);

/** Ask for what the form says, and draw it; the old picture stays until the new one is there. */
async function load() {
  asking?.abort();
  const own = (asking = new AbortController());
  told = 0;
  area.setAttribute("aria-busy", "true");
  try {
    const { data: found, wrong, cost } = await ask(asked(form).toString(), data !== null, own.signal);
    if (own.signal.aborted) return;
    rests.begin(cost);
    trouble.replaceChildren(...(wrong ? [make("p", wrong, "problem wrong")] : []));
    if (cost === null) told = Infinity;
    if (found) draw(found);
  } finally {
    if (asking === own) {
      asking = null;
      area.removeAttribute("aria-busy");
      work();
    }
  }
}

/** Ask again if the numbers changed, but never for two answers at a time. */
function work() {
  if (asking) return;
  if (told && data && shows(data, told)) told = 0;
  if (told && rests.over()) void load();
}

/** @param {number} commit the newest one; 0 if it is not known */
function refresh(commit) {
  told = Math.max(told, commit || Infinity);
  work();
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
  at = time === null ? -1 : found.times.indexOf(time);
  redraw();
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
  for (const each of panels) each.point(at);
  states.textContent = notesOf(data);
}

/** How the page follows, and the commit, which is not read out: there is one a second. */
function say() {
  const said = { live: "live", polling: "asks every 10 s", over: "logged out: load the page again to log in" };
  const text = said[/** @type {keyof said} */ (how)] ?? "";
  if (status.textContent !== text) status.textContent = text;
  asOf.textContent = data?.commit ? ` · as of commit ${data.commit}` : "";
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
  offerCondition();
  void load();
}

/** Below the last condition there is a field for one more. */
function offerCondition() {
  /** @type {NodeListOf<HTMLInputElement>} */
  const fields = form.querySelectorAll("input[name=where]");
  const last = fields[fields.length - 1];
  if (!last?.value) return;
  const more = /** @type {HTMLInputElement} */ (last.cloneNode());
  more.removeAttribute("id");
  more.setAttribute("aria-label", "Only where");
  more.value = "";
  last.after(more);
}

/** @param {number | null} time that the crosshair is at */
function moved(time) {
  at = placeOf(data, time);
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
  if (!data?.times.length || event.ctrlKey || event.metaKey || event.altKey) return;
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
work();
