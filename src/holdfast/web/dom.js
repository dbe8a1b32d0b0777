// Builds elements. Text of the cluster only ever becomes text nodes or attribute values, never markup.

export const $ = (id) => document.getElementById(id);

export function h(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "class") element.className = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(9).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

// Replaces the children, and gives the focus to the new element with the same data-key.
export function fill(parent, ...children) {
  const focused = parent.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
  parent.replaceChildren(...children.flat(9).filter(Boolean));
  if (focused !== undefined) {
    for (const one of parent.querySelectorAll("[data-key]")) {
      if (one.dataset.key === focused) return one.focus({ preventScroll: true });
    }
  }
}

export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// A name of the cluster, isolated so that right-to-left text does not reorder what is beside it.
export const name = (text) => h("bdi", { class: "name" }, text);

const KINDS = new Set(["pod", "node", "nodeclaim", "nodepool", "reservation", "job", "jobset", "leaderworkerset", "podgroup", "provisioningrequest"]);
export const NAMESPACED = new Set(["pod", "job", "jobset", "leaderworkerset", "podgroup", "provisioningrequest"]);

// The address of an explanation, or null if objects of the kind have none.
export function route(kind, namespace, object) {
  const lower = kind.toLowerCase();
  if (!KINDS.has(lower) || !object || (NAMESPACED.has(lower) && !namespace)) return null;
  const parts = NAMESPACED.has(lower) ? [lower, namespace, object] : [lower, object];
  return `#/explain/${parts.map(encodeURIComponent).join("/")}`;
}

export function link(kind, namespace, object, attributes) {
  const href = route(kind, namespace, object);
  const text = namespace ? `${namespace}/${object}` : object;
  return href ? h("a", { href, ...attributes }, name(text)) : name(text);
}

// Of an object by its namespace and name, as `shop/web`.
export function fullLink(kind, full, attributes) {
  const at = full.indexOf("/");
  return link(kind, full.slice(0, at), full.slice(at + 1), attributes);
}

export const podLink = (full, attributes) => fullLink("pod", full, attributes);

// Calls the function after a pause of `wait` ms without another call.
export function debounce(call, wait) {
  let timer = 0;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(call, wait);
  };
}

// Calls the function at once, and afterwards at most every `wait` ms.
export function throttle(call, wait) {
  let last = -Infinity;
  let timer = 0;
  return () => {
    if (timer) return;
    timer = setTimeout(() => {
      timer = 0;
      last = performance.now();
      call();
    }, Math.max(0, last + wait - performance.now()));
  };
}
