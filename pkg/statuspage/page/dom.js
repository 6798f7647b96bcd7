// Elements without HTML: whatever a server says becomes text, never markup.

const svgNamespace = 'http://www.w3.org/2000/svg';

function build(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else set(element, name, value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

export const h = (tag, attributes, ...children) => build(document.createElement(tag), attributes, children);

export const s = (tag, attributes, ...children) => build(document.createElementNS(svgNamespace, tag), attributes, children);

// set gives an attribute a value, and takes it away for null, undefined and false.
export function set(element, name, value) {
  if (value === null || value === undefined || value === false) element.removeAttribute(name);
  else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value === true ? '' : value);
}

// text writes only what is new, so that a selection or a screen reader is not disturbed.
export function text(element, words) {
  if (element.textContent !== words) element.textContent = words;
}

export const icon = (name) => s('svg', { class: 'icon', 'aria-hidden': 'true' }, s('use', { href: `#icon-${name}` }));

// setIcon changes what icon shows.
export function setIcon(svg, name) {
  set(svg.firstChild, 'href', `#icon-${name}`);
}

// keyed keeps one child for each item, in the order of the items, and makes or
// removes them as items come and go.
export function keyed(parent, items, key, make) {
  const old = new Map([...(parent.keyed ?? new Map())]);
  parent.keyed = new Map();
  items.forEach((item, i) => {
    const name = key(item);
    const view = old.get(name) ?? make(item);
    old.delete(name);
    parent.keyed.set(name, view);
    if (parent.children[i] !== view.element) parent.insertBefore(view.element, parent.children[i] ?? null);
    view.update(item);
  });
  for (const view of old.values()) view.element.remove();
}
