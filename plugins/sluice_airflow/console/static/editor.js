// The editor tries a draft while somebody writes it. Without this script its buttons do the same.
import { localise } from "./times.js";

/** How long somebody pauses before the draft is tried. */
const PAUSE_MS = 350;
const found = document.getElementById("editor");
if (found instanceof HTMLFormElement) edit(found);

/** @param {HTMLFormElement} form */
function edit(form) {
  let timer = 0;
  let asking = new AbortController();
  /** What was typed since a button was pressed that is not answered yet; null if none is.
   * @type {Map<string, Element> | null} */
  let typed = null;
  /** Whether the YAML says something that the fields do not say yet: then it counts, and not the fields. */
  let ahead = unread(document);

  /**
   * Send the draft; put what came back into the page.
   * @param {[string, string] | null} wish the button that was pressed
   * @param {boolean} whole whether fields may change too, not only what is shown of them
   */
  const send = async (wish, whole) => {
    window.clearTimeout(timer);
    asking.abort();
    asking = new AbortController();
    const own = asking;
    // A button's own wish comes before that of the YAML: it is for what the YAML says.
    const body = new URLSearchParams(wish ? [wish] : []);
    for (const [name, value] of new FormData(form)) body.append(name, String(value));
    const taken = ahead;
    if (taken) typed ??= new Map();
    say("…");
    try {
      const answer = await fetch(form.action, { method: "POST", body, signal: own.signal });
      if (!answer.ok && answer.status !== 422) {
        say(answer.status === 401 ? "You are logged out: log in in another tab, then go on." : "It was not tried.");
        return;
      }
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      if (whole || taken) replaceFields(form, page);
      if (typed) keep(typed);
      const writing = typed?.has("yaml") ?? false;
      if (taken) ahead = writing || unread(page);
      replaceShown(form, page, writing);
      say("");
      if (wish?.[0] === "point") document.getElementById("made-of")?.focus();
    } catch (error) {
      if (!(error instanceof DOMException && error.name === "AbortError")) {
        say("The server does not answer. What you wrote is still here.");
      }
    } finally {
      if (asking === own) {
        const later = typed;
        typed = null;
        if (later?.size) void send(null, false);
      }
    }
  };

  form.addEventListener("input", (event) => {
    const target = event.target;
    if (!(target instanceof HTMLElement)) return;
    if (target.id === "yaml") ahead = true;
    // What the YAML says comes first, and then what was typed into a field after it.
    else if (ahead && !typed) void send(null, false);
    if (typed) {
      typed.set(target.id, target);
      return;
    }
    window.clearTimeout(timer);
    timer = window.setTimeout(() => void send(null, false), PAUSE_MS);
  });
  // Whatever is sent, also for the review, is of the YAML while that is ahead.
  form.addEventListener("formdata", (event) => {
    if (ahead) event.formData.append("do", "yaml");
  });
  form.addEventListener("submit", (event) => {
    const button = event.submitter;
    if (!(button instanceof HTMLButtonElement) || button.hasAttribute("formaction")) return;
    event.preventDefault();
    if (button.value === "yaml") ahead = true;
    const sent = send([button.name, button.value], button.name !== "point");
    typed ??= new Map();
    void sent;
  });
  form.addEventListener("keydown", (event) => {
    if (event.target instanceof HTMLButtonElement && event.target.name === "point") move(event, event.target);
  });
  rove(form);
}

/**
 * Whether a page has a YAML that is no task: its fields are those from before it was written.
 * @param {Document} page
 */
function unread(page) {
  return page.getElementById("yaml")?.getAttribute("aria-invalid") === "true";
}

/**
 * Take over the form's fields, and the focus where it was.
 * @param {HTMLFormElement} form
 * @param {Document} page
 */
function replaceFields(form, page) {
  const had = document.activeElement;
  const fresh = page.getElementById("fields");
  const old = document.getElementById("fields");
  if (!fresh || !old) return;
  old.replaceChildren(...fresh.childNodes);
  const lines = page.getElementById("lines");
  const own = document.getElementById("lines");
  if (lines instanceof HTMLTextAreaElement && own instanceof HTMLTextAreaElement && own !== had) own.value = lines.value;
  const name = had instanceof HTMLButtonElement ? had.name : "";
  if (had?.id) document.getElementById(had.id)?.focus();
  else if (name === "use" || name === "do") {
    const rows = form.querySelectorAll("#fields fieldset.row input");
    const last = rows[rows.length - 1];
    if (document.activeElement === document.body && last instanceof HTMLElement) last.focus({ preventScroll: true });
  }
}

/**
 * Put what was typed meanwhile into the fields that came.
 * @param {Map<string, Element>} typed the fields, by id
 */
function keep(typed) {
  for (const [id, was] of typed) {
    const now = document.getElementById(id);
    if (now === was) continue;
    if (now instanceof HTMLInputElement && was instanceof HTMLInputElement) {
      now.value = was.value;
      now.checked = was.checked;
    } else if (
      (now instanceof HTMLSelectElement && was instanceof HTMLSelectElement) ||
      (now instanceof HTMLTextAreaElement && was instanceof HTMLTextAreaElement)
    ) {
      now.value = was.value;
    }
  }
}

/**
 * Take over what is shown: steps, problems, results, and the YAML unless somebody is writing it.
 * @param {HTMLFormElement} form
 * @param {Document} page
 * @param {boolean} writing whether the YAML was written since it was sent
 */
function replaceShown(form, page, writing) {
  for (const part of form.querySelectorAll("[data-live]")) {
    const fresh = page.getElementById(part.id);
    if (!fresh || fresh.innerHTML === part.innerHTML) continue;
    const at = document.activeElement;
    const value = at instanceof HTMLButtonElement && part.contains(at) ? at.value : "";
    part.replaceChildren(...fresh.childNodes);
    localise(part);
    if (value) focusOn(part.querySelector(`button[value="${CSS.escape(value)}"]`));
  }
  for (const box of form.querySelectorAll("[aria-describedby^='wrong-']")) {
    const problem = document.getElementById(box.getAttribute("aria-describedby") ?? "");
    if (problem?.textContent?.trim()) box.setAttribute("aria-invalid", "true");
    else box.removeAttribute("aria-invalid");
  }
  const yaml = document.getElementById("yaml");
  const fresh = page.getElementById("yaml");
  if (yaml instanceof HTMLTextAreaElement && fresh instanceof HTMLTextAreaElement) {
    if (yaml !== document.activeElement && !writing) yaml.value = fresh.value;
    if (unread(page)) yaml.setAttribute("aria-invalid", "true");
    else yaml.removeAttribute("aria-invalid");
  }
  rove(form);
}

/** @param {Element | null} to */
function focusOn(to) {
  if (to instanceof HTMLElement) to.focus();
}

/**
 * Let one piece of all lines be reached by Tab, and the others by arrow keys.
 * @param {ParentNode} root
 */
function rove(root) {
  /** @type {NodeListOf<HTMLButtonElement>} */
  const found = root.querySelectorAll("button[name='point']");
  const pieces = [...found];
  const chosen = pieces.find((each) => each.ariaPressed === "true") ?? pieces[0];
  for (const each of pieces) each.tabIndex = each === chosen ? 0 : -1;
}

/**
 * @param {KeyboardEvent} event
 * @param {HTMLButtonElement} at
 */
function move(event, at) {
  const line = at.closest(".line");
  /** @type {HTMLButtonElement[]} */
  const own = [...(line?.querySelectorAll("button") ?? [])];
  const index = own.indexOf(at);
  /** @type {Record<string, () => Element | null | undefined>} */
  const ways = {
    ArrowRight: () => own[index + 1],
    ArrowLeft: () => own[index - 1],
    Home: () => own[0],
    End: () => own[own.length - 1],
    ArrowDown: () => line?.nextElementSibling?.querySelectorAll("button")[index] ?? line?.nextElementSibling?.querySelector("button"),
    ArrowUp: () => line?.previousElementSibling?.querySelectorAll("button")[index] ?? line?.previousElementSibling?.querySelector("button"),
  };
  const to = ways[event.key]?.();
  if (!(to instanceof HTMLButtonElement)) return;
  event.preventDefault();
  at.tabIndex = -1;
  to.tabIndex = 0;
  to.focus();
}

/** @param {string} text */
function say(text) {
  const state = document.getElementById("state");
  if (state) state.textContent = text;
}
