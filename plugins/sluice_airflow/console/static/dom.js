// Small helpers for pages.

/**
 * The element of this id, which the page must have.
 * @template {HTMLElement} T
 * @param {string} id
 * @param {new () => T} kind
 * @returns {T}
 */
export function need(id, kind) {
  const found = document.getElementById(id);
  if (!(found instanceof kind)) throw new Error(`the page has no ${id}`);
  return found;
}

/**
 * A new element with a text.
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {string} [text]
 * @param {string} [style] its class
 */
export function make(tag, text = "", style = "") {
  const made = document.createElement(tag);
  made.textContent = text;
  if (style) made.className = style;
  return made;
}

/**
 * A new element with the elements of a text.
 * @param {string} html
 */
export function parsed(html) {
  const made = document.createElement("div");
  made.append(...new DOMParser().parseFromString(html, "text/html").body.childNodes);
  return made;
}

/**
 * A table with a heading for each column; the first column's cells head their rows.
 * @param {string} caption
 * @param {string[]} headings
 * @param {(string | Node)[][]} rows
 */
export function table(caption, headings, rows) {
  const made = document.createElement("table");
  made.createCaption().textContent = caption;
  const head = made.createTHead().insertRow();
  headings.forEach((text, column) => {
    const cell = make("th", text, column ? "number" : "");
    cell.scope = "col";
    head.append(cell);
  });
  const body = made.createTBody();
  for (const row of rows) {
    const line = body.insertRow();
    row.forEach((content, column) => {
      const cell = make(column ? "td" : "th", "", column ? "number" : "");
      if (cell instanceof HTMLTableCellElement && !column) cell.scope = "row";
      cell.append(content);
      line.append(cell);
    });
  }
  return made;
}
