// The tiles on top, problems, and the section about the controller.
import { $, fill, h, name, setText } from "./dom.js";
import { count, money, now, perHour, plural, time } from "./text.js";

const tile = (label, value, notes, extra) =>
  h("div", { class: `tile ${extra?.class ?? ""}` },
    h("dt", {}, label),
    h("dd", {}, h("strong", {}, value), extra?.bar, h("span", { class: "sub" }, notes)));

// Sums over all reservations, for the tile of slots.
function slots(rows) {
  const sum = { total: 0, here: 0, releasing: 0, held: 0, elsewhere: 0, free: 0, idle: 0 };
  for (const row of rows) for (const key of Object.keys(sum)) sum[key] += row[key] ?? 0;
  return sum;
}

function bar(sum) {
  const parts = [["here", sum.here], ["releasing", sum.releasing], ["held", sum.held], ["elsewhere", sum.elsewhere], ["free", sum.free]];
  const rest = sum.total - parts.reduce((all, [, n]) => all + n, 0);
  const element = h("span", { class: "stack", "aria-hidden": "true" });
  for (const [kind, n] of [...parts, ["shut", rest]]) {
    if (n <= 0) continue;
    const part = h("i", { class: `slot ${kind}` });
    part.style.flexGrow = String(n);
    element.append(part);
  }
  return element;
}

export function showSummary(status, reservations) {
  const sum = slots(reservations.items);
  const costs = status.costs ?? {};
  const unpriced = reservations.withoutPrice ? ` Price unknown: ${plural(reservations.withoutPrice, "reservation")}.` : "";
  const day = now() - (reservations.idleSince ?? 0) < 86000 && reservations.idleSince;
  const oldest = Math.min(...(status.pendingGroups ?? []).map((group) => group.oldest ?? Infinity));
  fill($("tiles"),
    tile("Idle slots now", perHour(reservations.idleUsdPerHour ?? 0), sum.idle ? `${plural(sum.idle, "slot")} paid for and not used.${unpriced}` : sum.total ? "every slot is used or held" : "no reservations", { class: sum.idle ? "idle" : "" }),
    tile(day ? "Idle slots so far" : "Idle slots, last 24 hours", money(reservations.idleUsdDay ?? 0), day ? ["counted since ", time(day)] : "at list price", { class: "idle-day" }),
    tile("Slots used here", `${count(sum.here)} of ${count(sum.total)}`, `${count(sum.free)} free, ${count(sum.held)} held, ${sum.releasing ? `${count(sum.releasing)} releasing, ` : ""}${count(sum.elsewhere)} elsewhere`, { bar: bar(sum) }),
    tile("Nodes outside slots", perHour((costs.onDemand ?? 0) + (costs.spot ?? 0)),
      `on-demand ${money(costs.onDemand ?? 0)}, spot ${money(costs.spot ?? 0)}${costs.unknownNodes ? `, ${plural(costs.unknownNodes, "price")} unknown` : ""}`),
    tile("Nodes", count(status.nodes), `${count(status.launching)} launching, ${count(status.draining)} draining`),
    tile("Pending pods", count(status.pending), status.pending ? (Number.isFinite(oldest) ? ["oldest: ", time(oldest, "relative")] : "") : `of ${plural(status.pods, "pod")}`,
      { class: status.pending ? "waits" : "" }));
}

// A problem that the status does not have. The next status replaces it.
export function showProblem(text) {
  $("problems").dataset.shown = text;
  fill($("problems"), h("div", { class: "problems" }, h("p", {}, text)));
}

export function showController(status) {
  setText($("cluster"), status.cluster ?? "");
  document.title = `Holdfast: ${status.cluster ?? ""}`;
  const problems = [];
  if (status.problem) problems.push(h("p", {}, h("strong", {}, "Not ready: "), status.problem));
  const failing = status.failing ?? [];
  for (const one of failing) {
    const keys = one.keyCount ? `the last reconcile of ${plural(one.keyCount, "key")} failed` : "";
    problems.push(h("p", {}, h("strong", {}, `Controller ${one.controller}: `), [one.problem, keys].filter(Boolean).join("; "), ". ",
      h("a", { href: "#/controller" }, "Show"))); 
  }
  const text = JSON.stringify([status.problem, failing]);
  const box = $("problems");
  if (box.dataset.shown !== text) {
    box.dataset.shown = text; // an alert is read aloud each time it changes
    fill(box, problems.length ? h("div", { class: "problems" }, problems) : null);
  }
  const facts = [
    ["Leader", status.leader ? [name(status.leader), status.leadingSince ? [", since ", time(status.leadingSince)] : null] : "unknown"],
    ["Version", status.version],
    ["Kubernetes", status.kubernetesVersion || "unknown"],
    ["Cluster", name(status.cluster)],
    ["Last plan", status.plannedAt ? time(status.plannedAt) : "none yet"],
    ["Controllers", failing.length ? `${plural(failing.length, "controller")} with problems` : "all make progress"],
  ];
  fill($("about"), facts.map(([term, value]) => h("div", {}, h("dt", {}, term), h("dd", {}, value))));
  fill($("failing"), failing.map((one) =>
    h("div", { class: "failing" }, h("h3", {}, one.controller), one.problem ? h("p", {}, one.problem) : null,
      one.keyCount ? h("p", {}, `The last reconcile of ${plural(one.keyCount, "key")} failed:`) : null,
      h("ul", {}, (one.keys ?? []).map((key) => h("li", {}, name(key)))),
      one.keyCount > (one.keys ?? []).length ? h("p", { class: "note" }, `and ${count(one.keyCount - (one.keys ?? []).length)} more`) : null)));
  const hour = status.lastHour ?? {};
  setText($("last-hour"), `Last hour: ${plural(hour.launches ?? 0, "launch", "launches")}, ${plural(hour.launchFailures ?? 0, "failed launch", "failed launches")}, ` +
    `${plural(hour.disruptions ?? 0, "disruption")}, ${plural(hour.removals ?? 0, "removal")}, ${plural(hour.interruptions ?? 0, "interruption")}.`);
}
