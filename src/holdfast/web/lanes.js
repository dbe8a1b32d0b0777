// The list of lanes: filter, order, time axis, and only the visible lanes in the document.
import { get } from "./api.js";
import { $, debounce, h, setText, throttle } from "./dom.js";
import { KINDS, lane, nextDate, place } from "./lane.js";
import { count, now, time } from "./text.js";

const SPARE = 4; // lanes above and below the visible ones
const PAST = 0.15; // share of the axis that is in the past
const SLOTS_AT_ONCE = 50; // reservations in one request

export function createLanes() {
  const box = $("lanes");
  const head = h("div", { class: "axis", "aria-hidden": "true" });
  const body = h("div", { class: "lanes-body", role: "presentation" });
  box.append(head, body);
  const uses = new Map(); // by reservation id
  const drawn = new Map(); // row elements by reservation id
  let all = [];
  let rows = [];
  let range = 604800;
  let chosen = false; // by the user
  let active = "";
  let printing = false;
  let version = 0; // of the reservations; slots of an older version are read again
  let report = {};

  const axis = () => {
    const t = now();
    return { from: t - range * PAST, to: t + range * (1 - PAST) };
  };
  const height = () => parseFloat(getComputedStyle(box).getPropertyValue("--lane")) || 74;

  function choose() {
    const words = $("lane-filter").value.toLowerCase().split(/\s+/).filter(Boolean);
    const text = (row) => `${row.id} ${row.instanceType} ${row.zone} ${row.kind} ${KINDS[row.kind] ?? ""} ${row.window} ${row.owner} ${row.state} ${(row.nodeClasses ?? []).join(" ")}`.toLowerCase();
    rows = words.length ? all.filter((row) => { const t = text(row); return words.every((word) => t.includes(word)); }) : [...all];
    const by = {
      idle: (row) => -(row.idleUsdPerHour ?? 0) - (row.idle ?? 0) / 1e6,
      ends: (row) => nextDate(row)?.[1] ?? Infinity,
      free: (row) => -(row.free ?? 0),
      id: () => 0,
    }[$("lane-sort").value];
    const keys = new Map(rows.map((row) => [row, by(row)]));
    rows.sort((a, b) => (keys.get(a) - keys.get(b) || 0) || (a.id < b.id ? -1 : 1));
    if (!rows.some((row) => row.id === active)) active = rows[0]?.id ?? "";
    setText($("lane-count"), rows.length === all.length ? count(all.length) : `${count(rows.length)} of ${count(all.length)}`);
    const note = $("lanes-note");
    note.replaceChildren(...(!all.length ? ["No capacity reservations are visible to this account."]
      : !rows.length ? ["No reservation matches the filter."]
      : report.countedAt ? ["EC2's counts were read ", time(report.countedAt), "."] : ["EC2's counts were not read yet."]));
  }

  function drawAxis() {
    const { from, to } = axis();
    const width = Math.max(200, head.querySelector(".ticks")?.clientWidth ?? body.clientWidth / 3);
    const steps = [1, 2, 3, 6, 12, 24, 48, 168, 336, 720, 1440].map((hours) => hours * 3600);
    const step = steps.find((size) => (to - from) / size <= width / 60) ?? steps.at(-1);
    const label = new Intl.DateTimeFormat(undefined, step < 86400 ? { hour: "2-digit", minute: "2-digit" } : { day: "numeric", month: "short" });
    const ticks = h("div", { class: "ticks" });
    const start = new Date(from * 1000);
    start.setHours(0, 0, 0, 0);
    for (let i = 0; i < 400; i += 1) {
      const date = new Date(start);
      if (step < 86400) date.setHours((i * step) / 3600);
      else date.setDate(start.getDate() + (i * step) / 86400);
      const at = date.getTime() / 1000;
      if (at > to - (to - from) * 0.03) break;
      if (at < from || Math.abs(at - now()) < (to - from) * 0.055) continue;
      const tick = h("span", { class: "tick" }, label.format(date));
      place(tick, { from, to }, at);
      ticks.append(tick);
    }
    const mark = h("span", { class: "tick now-label" }, "now");
    place(mark, { from, to }, now());
    ticks.append(mark);
    head.replaceChildren(h("span", {}, "Reservation"), ticks, h("span", {}, "Slots, by node"), h("span", { class: "num" }, "Use"));
  }

  // Draws the lanes that are visible now. A lane is built again only if what it shows changed.
  function draw() {
    const size = height();
    body.style.height = printing ? "auto" : `${rows.length * size}px`;
    const first = printing ? 0 : Math.max(0, Math.floor(box.scrollTop / size) - SPARE);
    const last = printing ? rows.length : Math.min(rows.length, Math.ceil((box.scrollTop + box.clientHeight) / size) + SPARE);
    const wanted = new Map();
    for (let i = first; i < last; i += 1) wanted.set(rows[i].id, i);
    const kept = rows.findIndex((row) => row.id === active); // the focus must not be lost with its lane
    if (kept >= 0) wanted.set(active, kept);
    for (const [id, element] of drawn) {
      if (!wanted.has(id)) {
        element.remove();
        drawn.delete(id);
      }
    }
    const span = axis();
    for (const [id, i] of wanted) {
      const row = rows[i];
      let element = drawn.get(id);
      if (!element) {
        element = h("div", { class: "lane", role: "listitem" });
        drawn.set(id, element);
        body.append(element);
      }
      element.style.transform = `translateY(${i * size}px)`;
      element.setAttribute("aria-setsize", String(rows.length));
      element.setAttribute("aria-posinset", String(i + 1));
      const key = JSON.stringify([row, uses.get(id)?.items, Math.floor(span.from / (range / 2000)), range]);
      if (element.shownKey === key) {
        element.querySelector(".lane-id").tabIndex = id === active ? 0 : -1;
        continue;
      }
      element.shownKey = key;
      const focused = element.contains(document.activeElement) ? [...element.querySelectorAll("a")].indexOf(document.activeElement) : -1;
      element.replaceChildren(...lane(row, uses.get(id)?.items, span, id === active));
      if (focused >= 0) (element.querySelectorAll("a")[focused] ?? element.querySelector("a")).focus({ preventScroll: true });
    }
    load();
  }

  // Reads which nodes use the slots of the visible lanes.
  const load = throttle(async () => {
    const missing = [...drawn.keys()].filter((id) => (uses.get(id)?.version ?? -1) < version && all.some((row) => row.id === id && (row.here || row.held || row.releasing) && row.total <= 64));
    for (let i = 0; i < missing.length; i += SLOTS_AT_ONCE) {
      const ids = missing.slice(i, i + SLOTS_AT_ONCE).filter((id) => !id.includes(","));
      if (!ids.length) continue;
      const asked = version;
      try {
        const answer = await get("slots", { query: { reservations: ids.join(",") } });
        for (const id of ids) uses.set(id, { version: asked, items: answer.items?.[id] ?? [] });
      } catch {
        return; // drawn without names; the next update asks again
      }
      draw();
    }
  }, 1000);

  // Until the user chooses one, the axis is a day if no date is later than that.
  function chooseRange() {
    const next = all.map(nextDate).filter(Boolean);
    range = next.length && all.every((row) => Math.max(row.starts ?? 0, row.ends ?? 0) < now() + 86400 * (1 - PAST)) ? 86400 : 604800;
    $("lane-range").querySelector(`input[value="${range}"]`).checked = true;
  }

  const redraw = () => { choose(); draw(); };
  const whole = () => { drawAxis(); redraw(); };
  $("lane-filter").addEventListener("input", debounce(() => { box.scrollTop = 0; redraw(); }, 120));
  $("lane-sort").addEventListener("change", () => { box.scrollTop = 0; redraw(); });
  $("lane-range").addEventListener("change", (event) => { range = Number(event.target.value); chosen = true; whole(); });
  let frame = 0;
  box.addEventListener("scroll", () => { frame ||= requestAnimationFrame(() => { frame = 0; draw(); }); }, { passive: true });
  new ResizeObserver(() => whole()).observe(box);
  addEventListener("beforeprint", () => { printing = true; draw(); });
  addEventListener("afterprint", () => { printing = false; draw(); });

  // Arrow keys: up and down between lanes, left and right between the slots of a lane.
  box.addEventListener("keydown", (event) => {
    const element = event.target.closest(".lane");
    if (!element) return;
    const at = rows.findIndex((row) => row.id === active);
    const page = Math.max(1, Math.floor(box.clientHeight / height()) - 1);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: rows.length - 1 }[event.key];
    if (to !== undefined) {
      event.preventDefault();
      const next = Math.max(0, Math.min(rows.length - 1, to));
      active = rows[next].id;
      const top = next * height();
      if (top < box.scrollTop) box.scrollTop = top;
      else if (top + height() * 1.5 > box.scrollTop + box.clientHeight) box.scrollTop = top + height() * 1.5 - box.clientHeight;
      draw();
      drawn.get(active)?.querySelector(".lane-id").focus({ preventScroll: true });
    } else if (event.key === "ArrowRight" || event.key === "ArrowLeft") {
      const links = [...element.querySelectorAll("a")];
      const next = links[links.indexOf(document.activeElement) + (event.key === "ArrowRight" ? 1 : -1)];
      if (next) next.focus({ preventScroll: true });
      event.preventDefault();
    }
  });
  // A click on a lane, beside its links, opens its reservation.
  box.addEventListener("click", (event) => {
    if (!event.target.closest("a") && !String(getSelection())) event.target.closest(".lane")?.querySelector(".lane-id").click();
  });
  box.addEventListener("focusin", (event) => {
    const id = [...drawn].find(([, element]) => element.contains(event.target))?.[0];
    if (id && id !== active) { active = id; draw(); }
  });

  return {
    show(next, changed) {
      report = next;
      all = next.items ?? [];
      version = changed;
      if (!chosen) chooseRange();
      for (const id of uses.keys()) if (uses.size > 2000) uses.delete(id);
      whole();
    },
    tick: whole,
  };
}
