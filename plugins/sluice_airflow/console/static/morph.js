// Makes one element like another, and keeps what is equal: so what has the focus keeps it, and what is open stays.

/**
 * @param {Element} old in the page
 * @param {Element} fresh what it is to be like
 */
export function morph(old, fresh) {
  if (old.isEqualNode(fresh)) return;
  attributes(old, fresh);
  const [before, after] = [[...old.childNodes], [...fresh.childNodes]];
  after.forEach((child, index) => {
    const had = before[index];
    if (!had) old.append(child);
    else if (had instanceof Element && child instanceof Element && alike(had, child)) morph(had, child);
    else if (had instanceof Text && child instanceof Text) {
      if (had.data !== child.data) had.data = child.data;
    } else had.replaceWith(child);
  });
  for (const child of before.slice(after.length)) child.remove();
}

/**
 * @param {Element} one
 * @param {Element} other
 */
function alike(one, other) {
  return one.nodeName === other.nodeName && one.id === other.id;
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
