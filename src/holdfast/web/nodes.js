// Nodes: a table of capacity types by zone or NodePool with their cost, and a list with search and pages.
import { get } from "./api.js";
import { $, debounce, fill, h, link, name, setText, throttle } from "./dom.js";
import { count, perHour, plural, time } from "./text.js";

const PAGE = 25;
const ROWS = 12; // of the table of groups; the rest is summed up
const TYPES = ["reserved", "spot", "on-demand"];
const STATES = ["launching", "starting", "ready", "draining"];
const SELECTS = { capacityType: "node-capacity", zone: "node-zone", nodePool: "node-pool", state: "node-state" };

function options(select, values) {
  const key = values.join("\n");
  if (select.dataset.values === key) return;
  select.dataset.values = key;
  const chosen = select.value;
  fill(select, h("option", { value: "" }, "all"), values.map((value) => h("option", { value }, value)));
  select.value = values.includes(chosen) ? chosen : "";
}

export function createNodes() {
  let status = { groups: [] };
  let offset = 0;
  let visible = false;
  let stale = true;
  let asked = 0;
  let shown = "";

  function groups() {
    const by = $("node-groups").querySelector("input:checked").value;
    const word = by === "zone" ? "Zone" : "NodePool";
    const rows = new Map();
    for (const group of status.groups ?? []) {
      const row = rows.get(group[by]) ?? { key: group[by], nodes: 0, usd: 0, types: {} };
      const type = TYPES.includes(group.capacityType) ? group.capacityType : "other";
      row.nodes += group.nodes;
      row.usd += group.usdPerHour ?? 0;
      const cell = (row.types[type] ??= { nodes: 0, usd: 0 });
      cell.nodes += group.nodes;
      cell.usd += group.usdPerHour ?? 0;
      rows.set(group[by], row);
    }
    const sorted = [...rows.values()].sort((a, b) => b.usd - a.usd || b.nodes - a.nodes || (a.key < b.key ? -1 : 1));
    const types = [...TYPES, ...(sorted.some((row) => row.types.other) ? ["other"] : [])];
    const most = Math.max(1, ...sorted.map((row) => row.nodes));
    const line = (row, head) => {
      const bar = h("span", { class: "stack", "aria-hidden": "true" });
      for (const type of types) {
        if (!row.types[type]) continue;
        const part = h("i", { class: `ct ${type}` });
        part.style.width = `${(row.types[type].nodes / most) * 100}%`;
        bar.append(part);
      }
      return h("tr", {}, h("th", { scope: "row" }, head),
        types.map((type) => h("td", { class: "num" }, row.types[type] ? [count(row.types[type].nodes), row.types[type].usd ? h("span", { class: "sub" }, perHour(row.types[type].usd)) : null] : h("span", { class: "none" }, "0"))),
        h("td", { class: "bar-cell" }, bar), h("td", { class: "num" }, perHour(row.usd)));
    };
    const sum = { nodes: 0, usd: 0, types: {} };
    for (const row of sorted) {
      sum.nodes += row.nodes;
      sum.usd += row.usd;
      for (const [type, cell] of Object.entries(row.types)) {
        const all = (sum.types[type] ??= { nodes: 0, usd: 0 });
        all.nodes += cell.nodes;
        all.usd += cell.usd;
      }
    }
    const choose = (row) => h("button", { type: "button", class: "plain", "data-key": row.key, title: `Show the nodes of ${row.key || "no"} ${word}`, onclick: () => only(by, row.key) }, name(row.key || "none"));
    const more = sorted.length - ROWS;
    fill($("groups"), sorted.length ? h("table", { class: "matrix" },
      h("caption", { class: "hidden" }, `Nodes of Holdfast by ${word} and capacity type, with their cost. Nodes in slots cost nothing more.`),
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, word), types.map((type) => h("th", { scope: "col", class: "num" }, h("i", { class: `ct ${type}`, "aria-hidden": "true" }), type)),
        h("th", { scope: "col", class: "bar-cell" }, h("span", { class: "hidden" }, "Share")), h("th", { scope: "col", class: "num" }, "Cost"))),
      h("tbody", {}, sorted.slice(0, ROWS).map((row) => line(row, choose(row)))),
      h("tfoot", {}, line({ ...sum, types: sum.types }, "All"))) : h("p", { class: "note" }, "Holdfast has launched no nodes."),
      more > 0 ? h("p", { class: "note" }, `and ${plural(more, "more row")}; the list below shows every node`) : null);
    for (const bar of $("groups").querySelectorAll("tfoot .stack")) bar.remove();
  }

  function only(by, value) {
    for (const id of Object.values(SELECTS)) $(id).value = "";
    $(SELECTS[by]).value = value;
    offset = 0;
    read();
    $("list-title").scrollIntoView({ block: "nearest" });
  }

  async function read() {
    if (!visible) return void (stale = true);
    stale = false;
    const mine = (asked += 1);
    const query = { search: $("node-search").value.trim(), limit: PAGE, offset: offset || "" };
    for (const [key, id] of Object.entries(SELECTS)) query[key] = $(id).value;
    try {
      const report = await get("nodes", { query });
      if (mine !== asked) return;
      if (offset && offset >= report.total) {
        offset = Math.max(0, Math.floor((report.total - 1) / PAGE) * PAGE);
        return void read();
      }
      list(report);
    } catch (error) {
      if (mine === asked) setText($("node-range"), `Nodes cannot be read: ${error.message}`);
    }
  }

  function list(report) {
    const items = report.items ?? [];
    setText($("node-range"), report.total ? `${count(offset + 1)} to ${count(offset + items.length)} of ${count(report.total)}` : "No node matches.");
    $("node-back").disabled = offset === 0;
    $("node-next").disabled = offset + items.length >= report.total;
    const text = JSON.stringify(items);
    if (text === shown) return;
    shown = text;
    const heads = [["Name"], ["State", "st"], ["Capacity type", "cap-type"], ["Instance type", "wide type-col"], ["Zone", "wide"], ["NodePool", "wider"], ["Reservation", "wider id"], ["Pods", "num wide"], ["Cost", "num"], ["Age", "wide"]];
    fill($("node-list"),
      h("thead", {}, h("tr", {}, heads.map(([head, css]) => h("th", { scope: "col", class: css }, head)))),
      h("tbody", {}, items.map((row) => {
        const joined = row.name !== row.nodeClaim;
        return h("tr", {},
          h("th", { scope: "row" }, link(joined ? "node" : "nodeclaim", "", row.name, { "data-key": row.name })),
          h("td", {}, h("span", { class: `state ${STATES.includes(row.state) ? `is-${row.state}` : ""}` }, row.state)),
          h("td", {}, TYPES.includes(row.capacityType) ? h("i", { class: `ct ${row.capacityType}`, "aria-hidden": "true" }) : null, row.capacityType || "unknown"),
          h("td", { class: "wide" }, name(row.instanceType ?? "")),
          h("td", { class: "wide" }, name(row.zone ?? "")),
          h("td", { class: "wider" }, row.nodePool ? link("nodepool", "", row.nodePool) : h("span", { class: "none" }, "none")),
          h("td", { class: "wider" }, row.reservation ? link("reservation", "", row.reservation) : ""),
          h("td", { class: "num wide" }, count(row.pods)),
          h("td", { class: "num" }, row.usdPerHour === undefined || row.usdPerHour === null ? "unknown" : row.usdPerHour === 0 ? "in slot" : perHour(row.usdPerHour)),
          h("td", { class: "wide" }, row.created ? time(row.created, "age") : ""));
      })));
  }

  $("node-search").addEventListener("input", debounce(() => { offset = 0; read(); }, 200));
  for (const id of Object.values(SELECTS)) $(id).addEventListener("change", () => { offset = 0; read(); });
  $("node-groups").addEventListener("change", groups);
  $("node-back").addEventListener("click", () => { offset = Math.max(0, offset - PAGE); read(); });
  $("node-next").addEventListener("click", () => { offset += PAGE; read(); });
  new IntersectionObserver((entries) => {
    visible = entries.some((entry) => entry.isIntersecting);
    if (visible && stale) read();
  }, { rootMargin: "300px" }).observe($("nodes"));
  const soon = throttle(read, 3000);

  let before = "";
  return {
    show(next) {
      const text = JSON.stringify([next.groups, next.nodes, next.launching, next.draining]);
      if (text === before) return;
      before = text;
      status = next;
      setText($("node-count"), count(next.nodes));
      const distinct = (key) => [...new Set((next.groups ?? []).map((group) => group[key]).filter(Boolean))].sort();
      options($("node-capacity"), distinct("capacityType"));
      options($("node-zone"), distinct("zone"));
      options($("node-pool"), distinct("nodePool"));
      options($("node-state"), STATES);
      groups();
      soon();
    },
  };
}
