// Money, times and counts as text. The time is that of the controller: documents have it in `at`.
import { h, link } from "./dom.js";

const wall = () => Date.now() / 1000;
const clock = { at: wall(), wall: wall(), rate: 1, first: null };

// Every document sets the clock. That of a demo is faster, and no document arrives while nothing changes.
export function setClock(at) {
  if (!at) return;
  clock.first ??= { at, wall: wall() };
  const [simulated, real] = [at - clock.first.at, wall() - clock.first.wall];
  if (simulated < 0 || real < 0) clock.first = { at, wall: wall() };
  else if (real > 4) clock.rate = simulated / real > 1.5 ? simulated / real : 1;
  clock.at = at;
  clock.wall = wall();
}
export const now = () => clock.at + (wall() - clock.wall) * clock.rate;

const MONEY = new Intl.NumberFormat("en-US", { style: "currency", currency: "USD" });
const COUNT = new Intl.NumberFormat("en-US");
const dollars = (usd) => (Math.abs(usd) < 1e12 ? MONEY.format(usd) : `$${usd.toExponential(2)}`);
export const money = (usd) => (usd === null || usd === undefined ? "unknown" : dollars(usd));
export const perHour = (usd) => (usd === null || usd === undefined ? "price unknown" : `${dollars(usd)}/h`);
export const count = (n) => COUNT.format(n ?? 0);
export const plural = (n, one, many) => `${count(n)} ${n === 1 ? one : (many ?? `${one}s`)}`;

const DAY = 86400;
const UNITS = [[365 * DAY, "y"], [DAY, "d"], [3600, "h"], [60, "min"], [1, "s"]];

// A length of time in at most two units: 3 d 4 h.
export function duration(seconds) {
  let rest = Math.max(0, Math.round(seconds));
  const first = UNITS.findIndex(([size]) => rest >= size);
  if (first < 0) return "0 s";
  const parts = [];
  for (const [size, unit] of UNITS.slice(first, first + 2)) {
    const n = Math.floor(rest / size);
    rest -= n * size;
    if (n && !(unit === "s" && parts.length)) parts.push(`${n} ${unit}`);
  }
  return parts.join(" ");
}

export function relative(at) {
  const away = at - now();
  if (Math.abs(away) < 2) return "now";
  return away > 0 ? `in ${duration(away)}` : `${duration(-away)} ago`;
}

const CLOCK = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const DATE = new Intl.DateTimeFormat(undefined, { weekday: "short", day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
const FULL = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
const valid = (at) => Number.isFinite(at) && Math.abs(at) < 8.64e12;

// Today's times without the date, others with it.
export function absolute(at) {
  if (!valid(at)) return "unknown";
  const date = new Date(at * 1000);
  const today = new Date(now() * 1000);
  if (date.toDateString() === today.toDateString()) return CLOCK.format(date);
  return (date.getFullYear() === today.getFullYear() ? DATE : FULL).format(date);
}

export const utc = (at) => (valid(at) ? `${new Date(at * 1000).toISOString().slice(0, 19).replace("T", " ")} UTC` : "");

// A <time> that `tick` keeps current. mode: relative, age, absolute or both.
export function time(at, mode = "both") {
  if (!valid(at)) return h("span", {}, "unknown");
  const element = h("time", { datetime: new Date(at * 1000).toISOString(), title: utc(at), "data-at": String(at), "data-mode": mode });
  write(element);
  return element;
}

function write(element) {
  const at = Number(element.dataset.at);
  const mode = element.dataset.mode;
  const texts = { relative, absolute, age: () => duration(now() - at), both: () => `${absolute(at)} (${relative(at)})` };
  const text = texts[mode](at);
  if (element.textContent !== text) element.textContent = text;
}

// A text of the controller: reservation ids become links, times are shown as everywhere on the page.
export function prose(text) {
  const parts = text.split(/\b(cr-[0-9a-f]{8,17}|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)\b/);
  return h("bdi", {}, parts.map((part, i) => (i % 2 === 0 ? part : part.startsWith("cr-") ? link("reservation", "", part) : time(Date.parse(part) / 1000))));
}

export function tick() {
  for (const element of document.querySelectorAll("time[data-at]")) write(element);
}

export const KIND = { pod: "Pod", node: "Node", nodeclaim: "NodeClaim", nodepool: "NodePool", reservation: "Reservation", job: "Job", podgroup: "PodGroup", provisioningrequest: "ProvisioningRequest", jobset: "JobSet", leaderworkerset: "LeaderWorkerSet" };
