// A chart of a dashboard: drawn from its address, read by keyboard, and its table.
import { ask } from "./answers.js";
import { named, number, shows } from "./columns.js";
import { make } from "./dom.js";
import { notesOf } from "./looks.js";
import { Panel, placeOf } from "./panel.js";
import { wholeTable } from "./point.js";
import { shown } from "./times.js";

/** The height of a plot, in pixels. */
const HEIGHT = 170;
/** Series whose values are read out. */
const SAID = 5;

export class Tile {
  /**
   * @param {HTMLElement} area where the plots go; its parent is the tile
   * @param {HTMLElement} reader what is said aloud goes there
   */
  constructor(area, reader) {
    this.area = area;
    this.reader = reader;
    this.address = area.dataset.address ?? "";
    this.task = area.dataset.task ?? "";
    this.title = area.dataset.title ?? "";
    const root = area.parentElement ?? area;
    this.states = root.querySelector(".states");
    this.trouble = root.querySelector(".trouble");
    this.details = root.querySelector("details");
    this.details?.addEventListener("toggle", () => this.fillTable());
    this.inView = false;
    /** Whether it was asked for. */
    this.asked = false;
    /** The newest commit that came since it was asked for; infinite for news without one. */
    this.told = 0;
    /** @type {import("./columns.js").ChartData | null} */
    this.data = null;
    /** @type {Panel[]} */
    this.panels = [];
    /** @type {Set<string>} names of series */
    this.hidden = new Set();
    this.at = -1;
  }

  /** Whether it shows everything that events named. */
  get current() {
    return this.data !== null && shows(this.data, this.told);
  }

  /**
   * Ask for the numbers and draw them; the old picture stays until the new one is there.
   * @returns {Promise<number | null>} what the answer cost the server; null if it may answer later
   */
  async load() {
    this.asked = true;
    this.told = 0;
    const { data, wrong, cost } = await ask(this.address, this.data !== null);
    this.trouble?.replaceChildren(...(wrong ? [make("p", wrong, "wrong")] : []));
    if (data) this.draw(data);
    return cost;
  }

  /** @param {import("./columns.js").ChartData} found */
  draw(found) {
    const time = this.at >= 0 && this.data ? this.data.times[this.at] : null;
    this.data = found;
    if (this.panels.map((each) => each.metric.name).join() !== found.metrics.map((each) => each.name).join()) {
      for (const each of this.panels) each.plot?.destroy();
      this.panels = found.metrics.map((metric) => new Panel(metric, {
        zoom: (since, until) => this.open(since, until),
        moved: (at) => this.moved(at),
        toggle: (name) => this.toggle(name),
      }, HEIGHT));
      for (const each of this.panels) each.plotted.addEventListener("keydown", (event) => this.press(event));
      this.area.replaceChildren(...this.panels.map((each) => each.root));
    }
    this.at = time === null ? -1 : found.times.indexOf(time);
    this.redraw();
    this.fillTable();
  }

  redraw() {
    if (!this.data) return;
    const shape = new URLSearchParams(this.address).get("shape") ?? "line";
    for (const each of this.panels) {
      each.show(this.data, shape, this.hidden);
      each.plotted.setAttribute("aria-label", `${this.title}: ${each.metric.name} of ${this.data.task}, ` +
        `${this.data.series.length} series; the arrow keys move the crosshair, Enter opens the chart`);
      each.point(this.at);
    }
    const none = this.data.series.length ? "" : "There are no results in this time. ";
    if (this.states) this.states.textContent = none + notesOf(this.data);
  }

  /** Draw everything again, in the colours of the theme that is shown now. */
  forget() {
    for (const each of this.panels) each.forget();
    this.redraw();
  }

  resize() {
    for (const each of this.panels) each.resize();
  }

  /** @param {number | null} time that the crosshair is at */
  moved(time) {
    this.at = placeOf(this.data, time);
    for (const each of this.panels) each.point(this.at);
  }

  /** @param {string} name of the series to show or hide */
  toggle(name) {
    if (!this.hidden.delete(name)) this.hidden.add(name);
    this.redraw();
  }

  /**
   * Go to the chart's own page, with all that can be changed there.
   * @param {number} [since] ms
   * @param {number} [until] ms
   */
  open(since, until) {
    const wanted = new URLSearchParams(this.address);
    if (since !== undefined && until !== undefined) {
      wanted.delete("last");
      wanted.set("since", new Date(since).toISOString());
      wanted.set("until", new Date(until).toISOString());
    }
    if (new URLSearchParams(location.search).has("bare")) wanted.set("bare", "true");
    location.assign(`${document.body.dataset.base}/charts?${wanted}`);
  }

  /** @param {KeyboardEvent} event */
  press(event) {
    if (!this.data?.times.length || event.ctrlKey || event.metaKey || event.altKey) return;
    const last = this.data.times.length - 1;
    const steps = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -last, End: last };
    const step = steps[/** @type {keyof steps} */ (event.key)];
    if (step) this.pointAt(Math.min(last, Math.max(0, (this.at < 0 ? last : this.at) + step)));
    else if (event.key === "Enter") this.open();
    else return;
    event.preventDefault();
  }

  /** @param {number} wanted the number of a time */
  pointAt(wanted) {
    const own = this.data;
    if (!own) return;
    for (const { plot } of this.panels) plot?.setCursor({ left: plot.valToPos(own.times[wanted], "x"), top: 10 }, false);
    this.moved(own.times[wanted]);
    const values = own.series.slice(0, SAID).flatMap((series) =>
      own.metrics.map((each) => `${named(series)} ${each.name} ${number(series.values[each.name][wanted])}`));
    const state = own.states[own.stateOf[wanted]] ?? "no results";
    this.reader.textContent = [shown(own.times[wanted]), state, ...values].join(", ");
  }

  fillTable() {
    if (this.details?.open && this.data) this.details.querySelector(".scroll")?.replaceChildren(wholeTable(this.data));
  }
}
