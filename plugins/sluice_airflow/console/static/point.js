// The values of one time, with ways to the lines behind them; and all values as a table.
import { named, number } from "./columns.js";
import { make, table } from "./dom.js";
import { shown } from "./times.js";

/** Rows of the table: the newest ones. */
const ROWS = 500;

/**
 * The values of one time.
 * @param {import("./columns.js").ChartData} data
 * @param {number} at the time's number
 * @param {string | null} lines the address of the pages of lines; null for who may not read them
 */
export function pointTable(data, at, lines) {
  const headings = ["series", ...data.metrics.map((each) => each.name)];
  // Lines are found for one of the task's own periods, and for one series.
  const offered = lines !== null && data.period === data.ownPeriod;
  if (offered) headings.push("");
  const rows = data.series.map((series) => {
    /** @type {(string | Node)[]} */
    const row = [named(series), ...data.metrics.map((each) => withError(series, each.name, at))];
    if (offered) row.push(series.names.includes(null) ? "" : linkTo(lines, data, series, data.times[at]));
    return row;
  });
  return table(`state: ${data.states[data.stateOf[at]] ?? "no results"}`, headings, rows);
}

/**
 * @param {import("./columns.js").Series} series
 * @param {string} metric
 * @param {number} at
 */
function withError(series, metric, at) {
  const error = series.errors[metric]?.[at];
  return number(series.values[metric][at]) + (error ? ` ± ${number(error)}` : "");
}

/**
 * @param {string} lines
 * @param {import("./columns.js").ChartData} data
 * @param {import("./columns.js").Series} series
 * @param {number} time
 */
function linkTo(lines, data, series, time) {
  const period = new Date(time).toISOString();
  const wanted = new URLSearchParams({ task: data.task, version: String(data.version), period });
  // Several values of one dimension are alternatives, so the series' own value replaces those of the chart.
  const others = data.where.filter((each) => !data.split.some((dimension) => each.startsWith(`${dimension}=`)));
  for (const each of others) wanted.append("where", each);
  data.split.forEach((dimension, own) => wanted.append("where", `${dimension}=${series.names[own]}`));
  const link = make("a", "its lines");
  link.href = `${lines}?${wanted}`;
  return link;
}

/**
 * All values, newest first.
 * @param {import("./columns.js").ChartData} data
 */
export function wholeTable(data) {
  const columns = data.series.flatMap((series) => data.metrics.map((each) => ({ series, metric: each.name })));
  const headings = columns.map(({ series, metric }) =>
    data.split.length ? `${named(series)}${data.metrics.length > 1 ? ` ${metric}` : ""}` : metric,
  );
  const rows = [];
  for (let at = data.times.length - 1; at >= 0 && rows.length < ROWS; at--) {
    const state = data.states[data.stateOf[at]];
    if (state === undefined) continue;
    const values = columns.map(({ series, metric }) => withError(series, metric, at));
    rows.push([shown(data.times[at]), ...values, state]);
  }
  const left = data.times.length > rows.length ? ` The newest ${rows.length} periods; the CSV has all.` : "";
  return table(`${data.metrics.map((each) => each.name).join(", ")} of ${data.task}.${left}`,
    ["period", ...headings, "state"], rows);
}
