// One reservation as a lane: label, bar on the time axis, slots, numbers.
import { h, link, name } from "./dom.js";
import { absolute, count, now, perHour, plural, relative, time } from "./text.js";

export const KINDS = { "capacity-block": "Capacity block", default: "ODCR", interruptible: "Interruptible" };
const WINDOWS = { upcoming: "upcoming", draining: "nodes drain", reclaiming: "EC2 reclaims", ended: "ended" };
const CELLS = 64; // above this, a stacked bar with counts replaces single slots

// The kinds of slots of a row, in the order in which they are drawn.
export function parts(row) {
  const releasing = row.releasing ?? 0;
  const here = row.here ?? 0;
  const held = row.held ?? 0;
  const elsewhere = row.elsewhere ?? 0;
  const free = Math.max(0, Math.min(row.free ?? 0, row.total - here - releasing - held - elsewhere));
  const shut = Math.max(0, row.total - here - releasing - held - elsewhere - free);
  return { here, held, releasing, elsewhere, free, shut };
}

const NAMES = { here: "used here", held: "held", releasing: "releasing", elsewhere: "used elsewhere", free: "free", shut: "not usable now" };
export const slotName = (kind, row) => (kind === "shut" && row.window === "upcoming" ? "not started" : NAMES[kind]);

// The dates of a row, in their order.
const dates = (row) => [["starts", row.starts], ["drains", row.drains], ["EC2 reclaims", row.reclaims], ["ends", row.ends]].filter(([, at]) => at);

// The next date that matters.
export const nextDate = (row) => dates(row).find(([, at]) => at > now()) ?? null;

// The text alternative of the drawing.
export function sentence(row) {
  const shown = Object.entries(parts(row)).filter(([, n]) => n).map(([kind, n]) => `${n} ${slotName(kind, row)}`);
  const future = dates(row).filter(([, at]) => at > now()).map(([word, at]) => `${word} ${relative(at)}`);
  return `${KINDS[row.kind] ?? row.kind} of ${row.instanceType} in ${row.zone}, ${WINDOWS[row.window] ?? row.window}. ` +
    `${plural(row.total, "slot")}: ${shown.join(", ") || "none"}.` +
    (row.idle ? ` ${plural(row.idle, "slot")} idle, ${perHour(row.idleUsdPerHour === undefined ? 0 : row.idleUsdPerHour)}.` : "") +
    (future.length ? ` Dates: ${future.join(", ")}.` : "");
}

function spans(row, axis) {
  const marks = [row.starts ?? -Infinity, row.drains ?? row.reclaims ?? row.ends ?? Infinity, row.reclaims ?? row.ends ?? Infinity, row.ends ?? Infinity];
  return ["open", "draining", "reclaiming"].map((kind, i) => [kind, Math.max(marks[i], axis.from), Math.min(marks[i + 1], axis.to)])
    .filter(([, from, to]) => to > from)
    .map(([kind, from, to]) => {
      const element = h("i", { class: `span ${kind}${from > now() ? " future" : ""}` });
      place(element, axis, from, to);
      return element;
    });
}

export function place(element, axis, from, to) {
  const width = axis.to - axis.from;
  element.style.left = `${(((from - axis.from) / width) * 100).toFixed(3)}%`;
  if (to !== undefined) element.style.width = `${(((to - from) / width) * 100).toFixed(3)}%`;
}

function timeBar(row, axis) {
  const caps = dates(row).filter(([, at]) => at >= axis.from && at <= axis.to).map(([word, at]) => {
    const cap = h("i", { class: `cap ${word === "EC2 reclaims" ? "reclaims" : word}`, "data-tip": `${word} ${absolute(at)}, ${relative(at)}` });
    place(cap, axis, at);
    return cap;
  });
  const outside = !row.ends || row.ends > axis.to ? h("i", { class: "goes-on" }) : null;
  return h("div", { class: "track" }, spans(row, axis), caps, row.ends && row.ends <= axis.from ? null : outside);
}

// Which node is in which cell: EC2 has no order of slots, so nodes are drawn in the order of their names.
export function assign(row, uses) {
  const sorted = [...(uses ?? [])].sort((a, b) => ((a.node || a.nodeClaim || "") < (b.node || b.nodeClaim || "") ? -1 : 1));
  const of = (state) => sorted.filter((use) => use.state === state);
  const { here, held } = parts(row);
  const launching = of("launching");
  const waiting = launching.splice(0, held);
  return { here: [...of("running"), ...launching].slice(0, here), held: waiting, releasing: of("releasing") };
}

function slotBar(row, uses) {
  const all = parts(row);
  const strip = h("div", { class: "slots" });
  if (row.total > CELLS) {
    strip.classList.add("many");
    for (const [kind, n] of Object.entries(all)) {
      if (!n) continue;
      const part = h("span", { class: `slot ${kind}`, "data-tip": `${plural(n, "slot")} ${slotName(kind, row)}` }, h("b", {}, count(n)));
      part.style.flexGrow = String(n);
      strip.append(part);
    }
    return strip;
  }
  const taken = assign(row, uses);
  for (const [kind, n] of Object.entries(all)) {
    for (let i = 0; i < n; i += 1) {
      const use = taken[kind]?.[i];
      const owner = use && (use.node || use.nodeClaim);
      const tip = owner ? `${slotName(kind, row)}: ${owner}` : slotName(kind, row);
      strip.append(owner ? link(use.node ? "node" : "nodeclaim", "", owner, { class: `slot ${kind}`, tabindex: "-1", "data-tip": tip, "aria-label": tip })
        : h("i", { class: `slot ${kind}`, "data-tip": tip }));
      strip.lastChild.replaceChildren();
    }
  }
  return strip;
}

// The whole lane. `active`: it is the one that Tab reaches.
export function lane(row, uses, axis, active) {
  const next = nextDate(row);
  const text = sentence(row);
  const nowLine = h("i", { class: "now" });
  place(nowLine, axis, now());
  const classes = row.nodeClasses ?? [];
  const badges = [
    h("span", { class: "badge" }, KINDS[row.kind] ?? row.kind),
    WINDOWS[row.window] ? h("span", { class: `badge ${row.window}` }, WINDOWS[row.window]) : null,
    row.state !== "active" && row.state !== "scheduled" ? h("span", { class: "badge warn" }, row.state) : null,
    classes.length ? null : h("span", { class: "badge warn" }, "not selected"),
  ];
  const used = (row.here ?? 0) + (row.releasing ?? 0) + (row.elsewhere ?? 0);
  return [
    h("div", { class: "lane-label" },
      link("reservation", "", row.id, { class: "lane-id", tabindex: active ? "0" : "-1", "data-key": row.id, "aria-label": `${row.id}. ${text}` }),
      h("span", { class: "lane-type" }, name(row.instanceType), " · ", name(row.zone)),
      h("span", { class: "badges" }, badges)),
    h("div", { class: "lane-time" }, nowLine, timeBar(row, axis)),
    slotBar(row, uses),
    h("div", { class: "lane-numbers", "aria-hidden": "true" },
      h("span", {}, h("b", {}, `${count(used)}/${count(row.total)}`), " used"),
      row.idle ? h("span", { class: "idle" }, `${count(row.idle)} idle · `, h("b", {}, perHour(row.idleUsdPerHour === undefined ? 0 : row.idleUsdPerHour))) : h("span", { class: "none" }, "none idle"),
      h("span", { class: "none" }, next ? [`${next[0]} `, time(next[1], "relative")] : row.window === "ended" ? "ended" : "no end date")),
  ];
}
