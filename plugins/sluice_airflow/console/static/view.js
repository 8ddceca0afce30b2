// The view of a chart: what its form asks for is what the address says.

/**
 * What the form asks for, without what is empty or as usual.
 * @param {HTMLFormElement} form
 */
export function asked(form) {
  const usual = { top: "5", shape: "line", last: "24h" };
  const wanted = new URLSearchParams();
  for (const [name, value] of new FormData(form)) {
    if (typeof value === "string" && value && !(name in usual && usual[/** @type {keyof usual} */ (name)] === value)) {
      wanted.append(name, value);
    }
  }
  if (wanted.has("since") || wanted.has("until")) wanted.delete("last");
  if (new URLSearchParams(location.search).has("bare")) wanted.set("bare", "true");
  return wanted;
}

/**
 * Make the address say what is shown, so that a reload, a link and the way back show it again.
 * @param {URLSearchParams} wanted
 */
export function remember(wanted) {
  const address = `${location.pathname}?${wanted}`;
  if (address === location.pathname + location.search) return;
  history.pushState(null, "", address);
  // Airflow's page copies the address of its frame when the frame has loaded; this tells it to look again.
  try {
    window.frameElement?.dispatchEvent(new Event("load"));
  } catch {
    // The frame is another site's: it has an address of its own.
  }
}

/**
 * Make the form say what the address asks for.
 * @param {HTMLFormElement} form
 */
export function recall(form) {
  const wanted = new URLSearchParams(location.search);
  for (const each of form.elements) {
    if (each instanceof HTMLInputElement && each.type === "checkbox") {
      each.checked = wanted.has(each.name)
        ? wanted.getAll(each.name).includes(each.value)
        : each.name === "metric" && each === form.querySelector("[name=metric]");
    } else if (each instanceof HTMLSelectElement || (each instanceof HTMLInputElement && each.name !== "where")) {
      const usual = { top: "5", shape: "line", last: "24h" };
      if (each.name) each.value = wanted.get(each.name) ?? usual[/** @type {keyof usual} */ (each.name)] ?? "";
    }
  }
  const conditions = wanted.getAll("where");
  /** @type {NodeListOf<HTMLInputElement>} */
  const fields = form.querySelectorAll("[name=where]");
  fields.forEach((each, number) => (each.value = conditions[number] ?? ""));
}

/**
 * A time for a field of local time.
 * @param {number} ms since 1970
 */
export function local(ms) {
  const at = new Date(ms - new Date(ms).getTimezoneOffset() * 60_000);
  return at.toISOString().slice(0, 19);
}
