// A chart's data as the server sends it, and as uPlot draws it.

/**
 * @typedef {{name: string, sketched: boolean, adds: boolean}} Metric
 * @typedef {(number | null)[]} Values
 * @typedef {{names: (string | null)[], values: Record<string, Values>, errors: Record<string, Values>}} Series
 * @typedef {{times: number[], stateOf: number[], series: Series[]}} Columns
 * @typedef {Columns & {
 *   task: string, version: number, timezone: string, period: string, ownPeriod: string,
 *   since: number, until: number, split: string[], metrics: Metric[], where: string[], results: string,
 *   commit: number, settled: boolean, states: string[], earlier: (Columns & {shift: number}) | null,
 * }} ChartData
 *
 * What one line of a chart is: `series` is its number, so lines of one series have one colour.
 * @typedef {{series: number, kind: "value" | "earlier" | "high" | "low", values: Values}} Line
 */

/**
 * The name of a series, for people.
 * @param {Series} series
 */
export function named(series) {
  if (!series.names.length) return "all";
  return series.names.map((name) => name ?? "(other)").join(" · ");
}

/**
 * Whether a chart shows all that is known as of a commit. What is settled, no commit changes.
 * @param {ChartData} data
 * @param {number} commit infinite for news of something else
 */
export function shows(data, commit) {
  return data.commit >= commit || (data.settled && Number.isFinite(commit));
}

/**
 * The lines of one metric, without those of series that are hidden.
 * @param {ChartData} data
 * @param {Metric} metric
 * @param {boolean} stacked
 * @param {Set<string>} hidden the names of series
 * @returns {{times: number[], lines: Line[]}}
 */
export function linesOf(data, metric, stacked, hidden) {
  /** @type {Line[]} */
  const lines = [];
  const below = new Array(data.times.length).fill(0);
  for (let number = data.series.length - 1; number >= 0; number--) {
    const series = data.series[number];
    if (hidden.has(named(series))) continue;
    const values = series.values[metric.name];
    if (stacked) {
      lines.unshift({ series: number, kind: "value", values: values.map((value, at) => over(below, value, at, data)) });
      continue;
    }
    const errors = series.errors[metric.name];
    if (errors) {
      lines.unshift(
        { series: number, kind: "high", values: values.map((value, at) => moved(value, errors[at], 1)) },
        { series: number, kind: "low", values: values.map((value, at) => moved(value, errors[at], -1)) },
      );
    }
    lines.unshift({ series: number, kind: "value", values });
  }
  return joined(data, lines, earlierLines(data, metric, stacked, hidden));
}

/**
 * The top of a series in a stack: what lies below is as high as all series after it.
 * @param {number[]} below
 * @param {number | null} value
 * @param {number} at
 * @param {ChartData} data
 */
function over(below, value, at, data) {
  below[at] += value ?? 0;
  return data.stateOf[at] < 0 ? null : below[at];
}

/**
 * @param {number | null} value
 * @param {number | null} error
 * @param {number} side
 */
function moved(value, error, side) {
  return value === null ? null : value + side * (error ?? 0);
}

/**
 * The same series earlier; of a stack only the total of those that are shown. The rest of a top list is another
 * one then.
 * @param {ChartData} data
 * @param {Metric} metric
 * @param {boolean} stacked
 * @param {Set<string>} hidden
 * @returns {Line[]}
 */
function earlierLines(data, metric, stacked, hidden) {
  const earlier = data.earlier;
  if (!earlier) return [];
  if (stacked) {
    const shown = earlier.series.filter((each) => !hidden.has(named(each)));
    const total = earlier.times.map((_, at) =>
      earlier.stateOf[at] < 0 ? null : shown.reduce((sum, each) => sum + (each.values[metric.name][at] ?? 0), 0),
    );
    return [{ series: 0, kind: "earlier", values: total }];
  }
  const known = new Map(data.series.map((each, number) => [named(each), number]));
  /** @type {Line[]} */
  const lines = [];
  for (const series of earlier.series) {
    const number = known.get(named(series));
    if (number === undefined || hidden.has(named(series)) || series.names.includes(null)) continue;
    lines.push({ series: number, kind: "earlier", values: series.values[metric.name] });
  }
  return lines;
}

/**
 * Lines over one list of times; those of `earlier` are moved to the time that is shown.
 * @param {ChartData} data
 * @param {Line[]} lines
 * @param {Line[]} earlier
 */
function joined(data, lines, earlier) {
  if (!data.earlier || !earlier.length) return { times: data.times, lines };
  const shift = data.earlier.shift;
  const tables = [
    [data.times, ...lines.map((each) => each.values)],
    [data.earlier.times.map((time) => time + shift), ...earlier.map((each) => each.values)],
  ];
  const [times, ...values] = uPlot.join(/** @type {uPlot.AlignedData[]} */ (tables));
  const all = [...lines, ...earlier].map((each, number) => ({ ...each, values: /** @type {Values} */ (values[number]) }));
  return { times: /** @type {number[]} */ (times), lines: all };
}

/**
 * A number as pages show it.
 * @param {number | null | undefined} value
 */
export function number(value) {
  if (value === null || value === undefined) return "–";
  return new Intl.NumberFormat("en", Number.isInteger(value) ? {} : { maximumSignificantDigits: 5 }).format(value);
}
