// The feed of decisions, newest first. New ones are put on top; the rest of the list is left as it is.
import { get } from "./api.js";
import { $, debounce, h, link, route } from "./dom.js";
import { absolute, plural, prose, time } from "./text.js";

const PAGE = 15;
const KEPT = 500;
const WORDS = { launch: "Launch", launched: "Launched", "launch-failed": "Launch failed", disruption: "Disruption", removal: "Removal", interruption: "Interruption" };

export function decision(row) {
  const reasons = row.reasons ?? [];
  const known = Object.hasOwn(WORDS, row.type);
  const details = h("details", {},
    h("summary", {},
      h("span", { class: `type ${known ? row.type : ""}` }, known ? WORDS[row.type] : row.type),
      h("span", { class: "text" }, h("bdi", {}, row.text)),
      h("span", { class: "sub" }, time(row.at, "relative"))),
    h("div", { class: "body" },
      reasons.length ? h("ul", {}, reasons.map((reason) => h("li", {}, prose(reason)))) : h("p", { class: "note" }, "No further reasons were recorded."),
      h("p", { class: "note" }, `${row.kind} `, link(row.kind, row.namespace ?? "", row.name), ", ", absolute(row.at), ". ",
        route(row.kind, row.namespace ?? "", row.name) ? h("a", { href: route(row.kind, row.namespace ?? "", row.name) }, "Explain it") : null)));
  return h("li", { "data-id": String(row.id) }, details);
}

export function createDecisions(onNew) {
  const feed = $("feed");
  let items = [];
  let shown = PAGE;
  let since = 0;
  let asked = 0; // only the answer to the last request is shown
  const filter = () => $("decision-filter").value.trim();

  function note() {
    const text = !items.length ? [filter() ? "No decision matches the filter." : "No decisions yet."]
      : [`${plural(items.length, "decision")}${items.length >= KEPT ? " (the newest)" : ""}`, ...(since ? [" since ", time(since)] : []), "."];
    $("feed-note").replaceChildren(...text);
    $("feed-more").hidden = shown >= items.length;
  }
  function redraw() {
    feed.replaceChildren(...items.slice(0, shown).map(decision));
    note();
  }

  async function reload() {
    const mine = (asked += 1);
    const report = await get("decisions", { query: { limit: KEPT, search: filter() } });
    if (mine !== asked) return;
    items = report.items ?? [];
    since = report.since ?? 0;
    shown = PAGE;
    redraw();
  }

  async function update() {
    const newest = items[0]?.id ?? 0;
    if (!newest) return reload();
    const mine = (asked += 1);
    const report = await get("decisions", { query: { after: newest, limit: KEPT, search: filter() } });
    if (mine !== asked) return;
    const fresh = (report.items ?? []).filter((row) => row.id > newest);
    if (fresh.length >= KEPT) return reload();
    since = report.since ?? since;
    items = [...fresh, ...items].slice(0, KEPT);
    feed.prepend(...fresh.map(decision));
    while (feed.children.length > shown) feed.lastElementChild.remove();
    note();
    if (fresh.length) onNew(fresh);
  }

  $("decision-filter").addEventListener("input", debounce(() => reload().catch(failed), 200));
  $("feed-more").addEventListener("click", () => {
    const from = shown;
    shown += PAGE;
    feed.append(...items.slice(from, shown).map(decision));
    note();
    feed.children[from]?.querySelector("summary").focus();
  });
  const failed = (error) => $("feed-note").replaceChildren(`Decisions cannot be read: ${error.message}`);

  return {
    newest: () => items[0]?.id ?? 0,
    reload: () => reload().catch(failed),
    // Ids start again at 1 when another replica leads, so a smaller id means a new list.
    update: (last) => (filter() || last >= (items[0]?.id ?? 0) ? update() : reload()).catch(failed),
  };
}
