// What the server says when it does not answer with what was asked for.

/**
 * Why there is no chart, as a sentence.
 * @param {Response} answer
 * @returns {Promise<string>}
 */
export async function reason(answer) {
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
