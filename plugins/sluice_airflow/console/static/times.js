// Times in the reader's own zone, which the page names.

const zone = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
const whole = new Intl.DateTimeFormat("sv-SE", { dateStyle: "short", timeStyle: "medium" });

/**
 * A time as pages show it: 2015-05-17 10:05:00.
 * @param {number} ms since 1970
 */
export function shown(ms) {
  return whole.format(ms);
}

/**
 * Show the times below an element in the reader's zone.
 * @param {ParentNode} root
 */
export function localise(root) {
  for (const each of root.querySelectorAll("time[datetime]")) {
    const at = Date.parse(each.getAttribute("datetime") ?? "");
    if (!Number.isNaN(at)) each.textContent = shown(at);
  }
  for (const each of root.querySelectorAll("[data-zone]")) each.textContent = zone;
}
