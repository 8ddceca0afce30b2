// One metric's chart: its plot, and a legend with the values under the crosshair.
import { linesOf, named, number } from "./columns.js";
import { make } from "./dom.js";
import { colour, faint, lookOf, shade } from "./looks.js";

/** All plots of a page have one crosshair. */
const SYNC = "crosshair";
const HEIGHT = 280;
const [MINUTE, DAY] = [60_000, 86_400_000];
/**
 * How the axis of time names its ticks: from which distance on, the plain text, and what is added where the
 * year, the day and the minute are new.
 */
const TICKS = [
  [28 * DAY, "{YYYY}-{MM}", "", "", "", "", "", "", 1],
  [DAY, "{MM}-{DD}", "\n{YYYY}", "", "", "", "", "", 1],
  [MINUTE, "{HH}:{mm}", "\n{YYYY}-{MM}-{DD}", "", "\n{MM}-{DD}", "", "", "", 1],
  [1, "{HH}:{mm}:{ss}", "\n{YYYY}-{MM}-{DD}", "", "\n{MM}-{DD}", "", "", "", 1],
];

/**
 * @typedef {{
 *   zoom: (since: number, until: number) => void,
 *   moved: (time: number | null) => void,
 *   toggle: (name: string) => void,
 * }} Told what a panel tells the page
 */

export class Panel {
  /**
   * @param {import("./columns.js").Metric} metric
   * @param {Told} told
   * @param {number} [height] of the plot, in pixels
   */
  constructor(metric, told, height = HEIGHT) {
    this.metric = metric;
    this.told = told;
    this.height = height;
    this.root = document.createElement("figure");
    this.root.className = "panel";
    this.title = document.createElement("figcaption");
    this.plotted = document.createElement("div");
    this.plotted.className = "plot";
    this.plotted.tabIndex = 0;
    this.plotted.setAttribute("role", "group");
    this.plotted.setAttribute("aria-roledescription", "chart");
    this.legend = document.createElement("ul");
    this.legend.className = "legend";
    this.root.append(this.title, this.plotted, this.legend);
    /** @type {uPlot | null} */
    this.plot = null;
    /** @type {string | undefined} what the plot was made for: other values need no new one */
    this.like = undefined;
    /** @type {import("./columns.js").ChartData | undefined} */
    this.data = undefined;
    /** @type {{series: number, shown: HTMLElement}[]} */
    this.rows = [];
    /** What the legend was made for. */
    this.listed = "";
  }

  /**
   * Draw the data; what the chart looked like stays where it did not change.
   * @param {import("./columns.js").ChartData} data
   * @param {string} shape
   * @param {Set<string>} hidden
   */
  show(data, shape, hidden) {
    this.data = data;
    const stacked = shape !== "line" && this.metric.adds;
    const { times, lines } = linesOf(data, this.metric, stacked, hidden);
    const values = /** @type {uPlot.AlignedData} */ ([times, ...lines.map((each) => each.values)]);
    const like = JSON.stringify([shape, stacked, lines.map((each) => [each.series, each.kind])]);
    this.title.textContent = this.metric.name;
    const notes = [
      ...(shape !== "line" && !stacked ? ["its values do not add up, so these are lines"] : []),
      ...(this.metric.sketched ? ["estimated; the band is its error"] : []),
    ];
    if (notes.length) this.title.append(note(notes.join("; ")));
    this.plotted.setAttribute("aria-label", `${this.metric.name} of ${data.task}: ${data.series.length} series; ` +
      "the arrow keys move the crosshair, + and - zoom, Enter shows a point");
    if (this.plot && like === this.like) {
      this.plot.setData(values, false);
      this.plot.setScale("x", { min: data.since, max: data.until });
      this.plot.redraw();
    } else {
      this.like = like;
      this.plot?.destroy();
      this.plot = new uPlot(this.options(lines, stacked, shape), values, this.plotted);
    }
    this.showLegend(data, hidden);
  }

  /**
   * @param {import("./columns.js").Line[]} lines
   * @param {boolean} stacked
   * @param {string} shape
   * @returns {uPlot.Options}
   */
  options(lines, stacked, shape) {
    const grid = { stroke: colour("--grid"), width: 1 };
    const ticks = { ...grid, size: 5 };
    const axis = { stroke: colour("--soft"), font: "12px system-ui, sans-serif", grid, ticks };
    const bars = shape === "bars" && stacked && uPlot.paths.bars ? uPlot.paths.bars({ size: [0.9, 60] }) : undefined;
    return {
      width: this.plotted.clientWidth || 600,
      height: this.height,
      ms: 1,
      legend: { show: false },
      cursor: { sync: { key: SYNC, scales: ["x", null] }, drag: { x: true, y: false, setScale: false }, y: false },
      scales: {
        x: { range: () => [this.data?.since ?? 0, this.data?.until ?? 1] },
        y: { range: (_, least, most) => this.range(least, most) },
      },
      axes: [{ ...axis, values: /** @type {any} */ (TICKS) }, { ...axis, size: 62, values: (_, splits) => splits.map(short) }],
      bands: bandsOf(lines, stacked && !bars),
      series: [{}, ...lines.map((line) => seriesOf(line, stacked, bars))],
      hooks: {
        drawClear: [(plot) => this.data && shade(plot, this.data)],
        setSelect: [(plot) => this.selected(plot)],
        setCursor: [(plot) => this.pointed(plot)],
      },
    };
  }

  /**
   * What adds up begins at 0; other values fill the height.
   * @param {number | null} least
   * @param {number | null} most
   * @returns {uPlot.Range.MinMax}
   */
  range(least, most) {
    if (least === null || most === null) return [0, 1];
    if (this.metric.adds && least >= 0) return [0, most * 1.08 || 1];
    return uPlot.rangeNum(least, most, 0.1, true);
  }

  /** @param {uPlot} plot */
  selected(plot) {
    const { left, width } = plot.select;
    if (width < 5) return;
    const [since, until] = [plot.posToVal(left, "x"), plot.posToVal(left + width, "x")];
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    this.told.zoom(Math.round(since), Math.round(until));
  }

  /** @param {uPlot} plot */
  pointed(plot) {
    const at = plot.cursor.idx;
    const time = at === null || at === undefined ? null : plot.data[0][at];
    this.told.moved(time);
  }

  /**
   * Show the values of one time in the legend; of the newest without one.
   * @param {number} at the time's number, as of `placeOf`
   */
  point(at) {
    for (const { series, shown } of this.rows) {
      const values = this.data?.series[series].values[this.metric.name] ?? [];
      const errors = this.data?.series[series].errors[this.metric.name];
      const place = at === -1 ? values.findLastIndex((value) => value !== null) : at;
      const error = errors?.[place];
      shown.textContent = number(values[place]) + (error ? ` ± ${number(error)}` : "");
    }
  }

  /**
   * A button stays while the series stay what they are: somebody may be pressing it, or be at it.
   * @param {import("./columns.js").ChartData} data
   * @param {Set<string>} hidden
   */
  showLegend(data, hidden) {
    const looks = data.series.map((series, own) => ({ name: named(series), ...lookOf(own) }));
    const listed = JSON.stringify(looks);
    if (listed !== this.listed) {
      this.listed = listed;
      const focused = document.activeElement instanceof HTMLElement ? document.activeElement.dataset.name : undefined;
      const had = this.legend.contains(document.activeElement);
      this.rows = [];
      this.legend.replaceChildren(...looks.map((look, own) => this.item(look, own)));
      if (had) for (const each of this.legend.querySelectorAll("button")) if (each.dataset.name === focused) each.focus();
    }
    this.press(hidden);
    this.point(-1);
  }

  /**
   * A series in the legend.
   * @param {{name: string, colour: string, dash: number[]}} look
   * @param {number} series its number
   */
  item({ name, colour, dash }, series) {
    const button = make("button");
    button.type = "button";
    button.dataset.name = name;
    button.onclick = () => this.told.toggle(name);
    const swatch = make("span", "", "swatch");
    swatch.style.borderTop = `3px ${dash.length ? "dashed" : "solid"} ${colour}`;
    const shown = make("span", "", "value");
    button.append(swatch, make("span", name, "name"), shown);
    this.rows.push({ series, shown });
    const item = make("li");
    item.append(button);
    return item;
  }

  /**
   * Let the buttons say which series are hidden.
   * @param {Set<string>} hidden
   */
  press(hidden) {
    for (const button of this.legend.querySelectorAll("button")) {
      const gone = hidden.has(button.dataset.name ?? "");
      button.setAttribute("aria-pressed", String(!gone));
      button.title = gone ? "Show this series" : "Hide this series";
    }
  }

  resize() {
    this.plot?.setSize({ width: this.plotted.clientWidth, height: this.height });
  }

  /** Draw everything again, in the colours of the theme that is shown now. */
  forget() {
    this.like = undefined;
  }
}

/**
 * The number of a time; -1 for none, and -2 for a time that only the chart of earlier has.
 * @param {import("./columns.js").ChartData | null} data
 * @param {number | null} time
 */
export function placeOf(data, time) {
  if (!data || time === null) return -1;
  const at = data.times.indexOf(time);
  return at < 0 ? -2 : at;
}

/** @param {string} text */
function note(text) {
  const made = document.createElement("span");
  made.className = "note";
  made.textContent = ` ${text}`;
  return made;
}

/**
 * @param {import("./columns.js").Line} line
 * @param {boolean} stacked
 * @param {uPlot.Series.PathBuilder | undefined} bars
 * @returns {uPlot.Series}
 */
function seriesOf(line, stacked, bars) {
  const look = lookOf(line.series);
  if (line.kind === "high" || line.kind === "low") return { stroke: undefined, width: 0, points: { show: false } };
  if (line.kind === "earlier") {
    const stroke = stacked ? colour("--ink") : faint(look.colour, 0.65);
    return { stroke, width: 1.5, dash: [4, 4], points: { show: false } };
  }
  const made = { stroke: look.colour, width: stacked ? 1 : 1.75, dash: look.dash };
  if (bars) return { ...made, dash: undefined, fill: look.colour, paths: bars, points: { show: false } };
  return stacked ? { ...made, fill: faint(look.colour, 0.55) } : made;
}

/**
 * What is filled between two lines: the bands of errors, and the layers of a stack.
 * @param {import("./columns.js").Line[]} lines
 * @param {boolean} stacked
 * @returns {uPlot.Band[]}
 */
function bandsOf(lines, stacked) {
  /** @type {uPlot.Band[]} */
  const bands = [];
  lines.forEach((line, at) => {
    if (line.kind === "high") bands.push({ series: [at + 1, at + 2], fill: faint(lookOf(line.series).colour, 0.18) });
    const next = lines[at + 1];
    if (stacked && line.kind === "value" && next?.kind === "value") bands.push({ series: [at + 1, at + 2] });
  });
  return bands;
}

/** @param {number} value */
function short(value) {
  return new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 2 }).format(value);
}
