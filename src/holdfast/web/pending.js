// Pending pods, grouped by the reason, and what is being launched for them.
import { $, fill, h, podLink, link, setText } from "./dom.js";
import { count, KIND, perHour, plural, prose, time } from "./text.js";

const open = new Set(); // groups that the user opened
const FIRST = 8; // groups that are shown before the user asks for all
const GANGS = 20; // that are shown; the search finds the others
let all = false;

export function showPending(report) {
  const groups = report.groups ?? [];
  setText($("pod-count"), count(report.total));
  if (!report.total) return fill($("pending"), h("p", { class: "note good" }, "No pod is pending."));
  fill($("pending"), h("ul", { class: "groups" }, groups.slice(0, all ? undefined : FIRST).map((group) => {
    const examples = group.examples ?? [];
    const key = `${group.code} ${group.text}`;
    const details = h("details", { open: open.has(key), ontoggle: () => (details.open ? open.add(key) : open.delete(key)) },
      h("summary", { "data-key": key }, h("b", { class: "n" }, count(group.pods)), h("span", { class: "reason" }, h("bdi", {}, group.text || group.code)),
        group.oldest ? h("span", { class: "sub" }, "oldest: ", time(group.oldest, "relative")) : null),
      h("ul", { class: "examples" }, examples.map((pod) => h("li", {}, podLink(pod, { "data-key": `${key} ${pod}` })))),
      group.pods > examples.length ? h("p", { class: "note" }, `and ${count(group.pods - examples.length)} more with the same reason`) : null);
    return h("li", {}, details);
  })), !all && groups.length > FIRST ? h("button", { type: "button", onclick: () => { all = true; showPending(report); } }, `Show all ${count(groups.length)} reasons`) : null);
}

// Gangs that wait, the first of which is placed first.
export function showGangs(report) {
  const items = (report.items ?? []).slice(0, GANGS);
  fill($("gangs"), items.length ? [
    h("h3", {}, "Gangs ", h("span", { class: "count" }, count(report.total))),
    h("ul", { class: "launching" }, items.map((one) => h("li", {},
      link(one.kind, one.namespace, one.name, { "data-key": `gang ${one.kind} ${one.namespace}/${one.name}` }),
      h("bdi", {}, ` ${KIND[one.kind] ?? one.kind}, ${one.state}: ${count(one.located ?? 0)} of ${plural(one.needed || one.pods || 0, "pod")} with capacity`),
      one.since ? h("span", { class: "sub" }, " since ", time(one.since, "relative")) : null,
      h("p", { class: "note" }, prose(one.text ?? ""))))),
    report.total > items.length ? h("p", { class: "note" }, `and ${count(report.total - items.length)} more`) : null] : null);
}

export function showPlan(plan) {
  const launching = plan.launching ?? [];
  const total = launching.length + (plan.moreLaunching ?? 0);
  const saved = (plan.firstFitUsdPerHour ?? 0) - (plan.usdPerHour ?? 0);
  fill($("plan"),
    h("h3", {}, "Being launched ", h("span", { class: "count" }, count(total))),
    plan.plannedAt ? h("p", { class: "note" }, "The last plan was made ", time(plan.plannedAt),
      plan.usdPerHour || plan.firstFitUsdPerHour ? `. Its new nodes cost ${perHour(plan.usdPerHour ?? 0)}; first fit alone would cost ${perHour(plan.firstFitUsdPerHour ?? 0)}${saved > 0.005 ? `, ${perHour(saved)} more` : ""}.` : ".",
      plan.nominated ? ` ${plural(plan.nominated, "pod waits", "pods wait")} for a node that is being launched.` : "") : h("p", { class: "note" }, "No plan was made yet."),
    launching.length ? h("ul", { class: "launching" }, launching.map((one) => h("li", {},
      link("nodeclaim", "", one.nodeClaim, { "data-key": `plan ${one.nodeClaim}` }), h("span", {}, " ", h("bdi", {}, one.text)),
      one.podCount ? h("span", { class: "sub" }, ` for ${plural(one.podCount, "pod")}: `, (one.pods ?? []).slice(0, 3).map((pod, i) => [i ? ", " : "", podLink(pod)]), one.podCount > 3 ? " and more" : "") : null))) : null,
    plan.moreLaunching ? h("p", { class: "note" }, `and ${count(plan.moreLaunching)} more`) : null);
}
