// Colours and dashes of series, and the patterns of periods that are not final.

/** Colours of series. Further series have the same colours again, with dashes. */
const COLOURS = 10;
const DASHES = [[], [7, 4], [2, 3], [9, 3, 2, 3]];

const probe = document.createElement("span");
probe.hidden = true;

/**
 * A colour of the theme that is shown now.
 * @param {string} name of the style's variable
 */
export function colour(name) {
  if (!probe.isConnected) document.body.append(probe);
  probe.style.color = `var(${name})`;
  return getComputedStyle(probe).color;
}

/** @param {number} series */
export function lookOf(series) {
  return { colour: colour(`--series-${series % COLOURS}`), dash: DASHES[Math.floor(series / COLOURS) % DASHES.length] };
}

/**
 * The same colour, through which one sees.
 * @param {string} rgb as browsers compute it: rgb(1, 2, 3) or color(...)
 * @param {number} alpha
 */
export function faint(rgb, alpha) {
  return `color-mix(in srgb, ${rgb} ${Math.round(alpha * 100)}%, transparent)`;
}

/**
 * A pattern: stripes for open periods, dots for those to be computed or being counted again.
 * @param {CanvasRenderingContext2D} context
 * @param {string} state
 */
function pattern(context, state) {
  const tile = document.createElement("canvas");
  const size = 8 * devicePixelRatio;
  tile.width = tile.height = size;
  const pen = tile.getContext("2d");
  if (!pen) return null;
  pen.strokeStyle = pen.fillStyle = colour("--shade");
  pen.lineWidth = devicePixelRatio;
  if (state === "open") {
    for (const from of [-size, 0, size]) {
      pen.beginPath();
      pen.moveTo(from, size);
      pen.lineTo(from + size, 0);
      pen.stroke();
    }
  } else {
    pen.beginPath();
    pen.arc(size / 2, size / 2, 1.3 * devicePixelRatio, 0, 7);
    pen.fill();
  }
  return context.createPattern(tile, "repeat");
}

/**
 * Runs of neighbouring periods that are not final.
 * @param {import("./columns.js").ChartData} data
 */
export function runsOf(data) {
  /** @type {{state: string, first: number, last: number}[]} */
  const runs = [];
  data.times.forEach((time, at) => {
    const state = data.states[data.stateOf[at]];
    const before = runs[runs.length - 1];
    if (state === undefined || state === "final") return;
    if (before && before.state === state && data.stateOf[at - 1] === data.stateOf[at]) before.last = time;
    else runs.push({ state, first: time, last: time });
  });
  return runs;
}

/**
 * What the patterns and dashes of a chart mean, and how long its periods are.
 * @param {import("./columns.js").ChartData} data
 */
export function notesOf(data) {
  const found = new Set(runsOf(data).map((run) => run.state));
  const notes = [];
  if (found.has("open")) notes.push("striped: open, counted so far");
  if (found.has("superseded")) notes.push("dotted: superseded, to be computed again");
  if (found.has("recounting")) notes.push("dotted, without values: being counted again");
  if (data.earlier) notes.push("short dashes: earlier");
  notes.push(`every ${data.period}`);
  return notes.join(" · ");
}

/**
 * Draw the patterns of periods that are not final behind the lines, with the names of their states.
 * @param {uPlot} plot
 * @param {import("./columns.js").ChartData} data
 */
export function shade(plot, data) {
  const { ctx, bbox } = plot;
  const half = Math.min(...data.times.slice(1).map((time, at) => time - data.times[at])) / 2;
  const margin = Number.isFinite(half) ? half : 0;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  for (const run of runsOf(data)) {
    const left = plot.valToPos(run.first - margin, "x", true);
    const right = plot.valToPos(run.last + margin, "x", true);
    ctx.fillStyle = pattern(ctx, run.state) ?? "transparent";
    ctx.fillRect(left, bbox.top, right - left, bbox.height);
    ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
    ctx.textBaseline = "top";
    const shown = Math.max(left, bbox.left) + 5 * devicePixelRatio;
    const text = run.state === "recounting" ? "being counted again" : run.state;
    if (right - shown < ctx.measureText(text).width) continue;
    ctx.fillStyle = colour("--card");
    ctx.fillRect(shown - 3, bbox.top + 3, ctx.measureText(text).width + 6, 15 * devicePixelRatio);
    ctx.fillStyle = colour("--soft");
    ctx.fillText(text, shown, bbox.top + 4 * devicePixelRatio);
  }
  ctx.restore();
}
