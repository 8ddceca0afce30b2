// Makes one element like another, and keeps what is equal: so what has the focus keeps it, and what is open stays.

/**
 * Elements that come and go, and those beside them, need ids to be known again.
 * @param {Element} old in the page
 * @param {Element} fresh what it is to be like; it is used up
 */
export function morph(old, fresh) {
  if (old.isEqualNode(fresh)) return;
  attributes(old, fresh);
  let next = old.firstChild;
  for (const child of [...fresh.childNodes]) {
    const had = known(next, child);
    if (!had) {
      old.insertBefore(child, next);
      continue;
    }
    next = without(next, had)?.nextSibling ?? null;
    if (had instanceof Element && child instanceof Element) morph(had, child);
    else if (had.nodeValue !== child.nodeValue) had.nodeValue = child.nodeValue;
  }
  without(next, null);
}

/**
 * What stands for a node in the old element: the next of its kind, or the one with its id.
 * @param {ChildNode | null} next
 * @param {ChildNode} child
 */
function known(next, child) {
  if (!(child instanceof Element) || !child.id) return next && alike(next, child) ? next : null;
  for (let each = next; each; each = each.nextSibling) if (alike(each, child)) return each;
  return null;
}

/**
 * Remove what comes before a node, which is returned.
 * @param {ChildNode | null} next
 * @param {ChildNode | null} until
 */
function without(next, until) {
  while (next && next !== until) {
    const gone = next;
    next = next.nextSibling;
    gone.remove();
  }
  return next;
}

/**
 * @param {ChildNode} one
 * @param {ChildNode} other
 */
function alike(one, other) {
  return one.nodeName === other.nodeName && (one instanceof Element ? one.id : "") === (other instanceof Element ? other.id : "");
}

/**
 * @param {Element} old
 * @param {Element} fresh
 */
function attributes(old, fresh) {
  for (const name of old.getAttributeNames()) {
    // Whether a part is open is the reader's business.
    if (!fresh.hasAttribute(name) && !(name === "open" && old instanceof HTMLDetailsElement)) old.removeAttribute(name);
  }
  for (const name of fresh.getAttributeNames()) {
    const value = fresh.getAttribute(name) ?? "";
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
}
