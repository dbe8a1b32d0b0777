// The search field: a combobox whose options open the explanation of an object.
import { get } from "./api.js";
import { $, debounce, fill, h, name, route } from "./dom.js";
import { KIND } from "./text.js";

export function createSearch() {
  const input = $("search");
  const box = $("results");
  let hits = [];
  let at = -1;
  let abort = null;

  function close() {
    abort?.abort();
    box.hidden = true;
    at = -1;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  }
  function mark(next) {
    at = hits.length ? (next + hits.length) % hits.length : -1;
    [...box.querySelectorAll("[role=option]")].forEach((option, i) => {
      option.setAttribute("aria-selected", String(i === at));
      if (i === at) option.scrollIntoView({ block: "nearest" });
    });
    if (at >= 0) input.setAttribute("aria-activedescendant", `hit-${at}`);
  }
  function open(hit) {
    const href = hit && route(hit.kind, hit.namespace ?? "", hit.name);
    if (!href) return;
    close();
    input.value = "";
    location.hash = href;
  }
  function show(message, more) {
    box.hidden = false;
    input.setAttribute("aria-expanded", "true");
    fill(box, hits.map((hit, i) => h("div", { role: "option", id: `hit-${i}`, "aria-selected": "false", class: "hit", onmousedown: (event) => { event.preventDefault(); open(hit); } },
      h("span", { class: "badge" }, KIND[hit.kind] ?? hit.kind), h("span", { class: "hit-name" }, name(hit.namespace ? `${hit.namespace}/${hit.name}` : hit.name)),
      hit.text ? h("span", { class: "sub" }, h("bdi", {}, hit.text)) : null)),
      message ? h("p", { class: "note" }, message) : null, more ? h("p", { class: "note" }, "There are more; type more letters.") : null);
    mark(0);
  }

  async function read() {
    const q = input.value.trim();
    abort?.abort();
    if (!q) return close();
    abort = new AbortController();
    try {
      const report = await get("search", { query: { q }, signal: abort.signal });
      hits = (report.items ?? []).filter((hit) => route(hit.kind, hit.namespace ?? "", hit.name));
      show(hits.length ? "" : "Nothing has this in its name.", report.more);
    } catch (error) {
      if (error.name === "AbortError") return;
      hits = [];
      show(`The search failed: ${error.message}`);
    }
  }

  input.addEventListener("input", debounce(read, 150));
  input.addEventListener("focus", () => input.value.trim() && box.hidden && read());
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (box.hidden) read();
      else mark(at + (event.key === "ArrowDown" ? 1 : -1));
    } else if (event.key === "Enter") open(hits[Math.max(0, at)]);
    else if (event.key === "Escape") {
      event.stopPropagation();
      if (box.hidden) input.blur();
      close();
    }
  });
  return { focus: () => { input.focus(); input.select(); } };
}
