// A chart's numbers as the server answers with them, or why it does not.
import { costOf } from "./rests.js";

/**
 * @typedef {{
 *   data: import("./columns.js").ChartData | null,
 *   wrong: string,
 *   cost: number | null,
 * }} Answer `wrong`: why there are no data. `cost`: in ms of CPU; null if the server may answer later
 */

/**
 * Ask for a chart's numbers.
 * @param {string} query
 * @param {boolean} older whether older ones are shown
 * @param {AbortSignal} [signal]
 * @returns {Promise<Answer>}
 */
export async function ask(query, older, signal) {
  try {
    const answer = await fetch(`${document.body.dataset.base}/charts/data?${query}`, { signal });
    const cost = answer.status < 500 ? costOf(answer) : null;
    if (!answer.ok) return { data: null, wrong: await reason(answer), cost };
    return { data: await answer.json(), wrong: "", cost };
  } catch {
    // Browsers name it differently, also if the answer is cut off in its middle.
    return { data: null, wrong: `The server does not answer${older ? "; what is shown is older" : ""}.`, cost: null };
  }
}

/**
 * Why there is no chart, as a sentence.
 * @param {Response} answer
 * @returns {Promise<string>}
 */
async function reason(answer) {
  if (answer.status === 401) return "You are logged out: load the page again to log in.";
  try {
    const said = await answer.json();
    /** @type {{message: string}[]} */
    const problems = said.problems ?? [];
    return problems.map((each) => each.message).join("; ") || said.detail;
  } catch {
    return `The server answers ${answer.status}.`;
  }
}
