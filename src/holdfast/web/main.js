// Starts the page: reads the documents, follows the events, and shows what changed.
import { get, live } from "./api.js";
import { $, h, throttle } from "./dom.js";
import { createDecisions } from "./decisions.js";
import { createExplanation } from "./explanation.js";
import { createLanes } from "./lanes.js";
import { createNodes } from "./nodes.js";
import { showGangs, showPending, showPlan } from "./pending.js";
import { createSearch } from "./search.js";
import { showController, showProblem, showSummary } from "./summary.js";
import { perHour, plural, setClock, tick } from "./text.js";

const SECTIONS = new Set(["reservations", "pods", "decisions", "nodes", "controller"]);
const THEMES = ["auto", "light", "dark"];
const state = { status: null, reservations: { items: [] }, version: -1, pods: "" };

const lanes = createLanes();
const nodes = createNodes();
const explanation = createExplanation();
const search = createSearch();
let fresh = 0;
const decisions = createDecisions((rows) => { fresh += rows.length; announce(); });

// At most one sentence in ten seconds, so that a screen reader can be used meanwhile.
const announce = throttle(() => {
  if (fresh) $("announce").textContent = `${plural(fresh, "new decision")}. Idle slots cost ${perHour(state.reservations.idleUsdPerHour ?? 0)}.`;
  fresh = 0;
}, 10_000);

function timed(name, call) {
  const start = performance.now();
  call();
  const label = `holdfast:${name}`;
  if (performance.getEntriesByName(label).length >= 100) performance.clearMeasures(label); // the list has no bound of its own
  performance.measure(label, { start });
}

function showStatus(status) {
  state.status = status;
  setClock(status.at);
  timed("status", () => {
    showController(status);
    showSummary(status, state.reservations);
    nodes.show(status);
  });
  const pods = JSON.stringify([status.pending, status.pendingGroups, status.plannedAt, status.launching, status.gangs]);
  if (pods !== state.pods) {
    state.pods = pods;
    readPods();
  }
}

const readReservations = throttle(async () => {
  const version = state.version;
  try {
    const report = await get("reservations");
    state.reservations = { ...report, items: report.items ?? [] };
    timed("reservations", () => {
      lanes.show(state.reservations, version);
      if (state.status) showSummary(state.status, state.reservations);
    });
  } catch (error) {
    $("lanes-note").textContent = `Reservations cannot be read: ${error.message}`;
  }
}, 2000);

const readPods = throttle(async () => {
  try {
    const [pods, gangs, plan] = await Promise.all([get("pods"), get("gangs"), get("plan")]);
    timed("pods", () => { showPending(pods); showGangs(gangs); showPlan(plan); });
  } catch (error) {
    $("pending").replaceChildren(h("p", { class: "note" }, `Pending pods cannot be read: ${error.message}`));
    state.pods = "";
  }
}, 2000);

async function readAll() {
  state.version += 1;
  readReservations();
  decisions.reload();
  state.pods = "";
  try {
    showStatus(await get("status", { attempts: 12 }));
  } catch (error) {
    showProblem(`The status cannot be read: ${error.message}`); // the next connection reads again
  }
}

function update(document_) {
  if (document_.status) showStatus(document_.status);
  if (document_.reservations !== state.seen) {
    state.seen = document_.reservations;
    state.version += 1;
    readReservations();
  }
  if (document_.decisions !== decisions.newest()) decisions.update(document_.decisions);
  if (explanation.isOpen()) explanation.update();
}

function connection(lostAt) {
  const box = $("live");
  document.body.classList.toggle("lost", Boolean(lostAt));
  box.className = `live ${lostAt ? "lost" : "open"}`;
  box.replaceChildren(lostAt ? `Not connected since ${new Date(lostAt).toLocaleTimeString()}` : "Live");
  box.title = lostAt ? "The page shows the last known state and connects again by itself." : "Changes appear by themselves.";
}

function go() {
  const [, view, ...rest] = location.hash.split("/");
  explanation.open(view === "explain" ? rest.join("/") : "");
  if (SECTIONS.has(view)) {
    const title = $(`${view}-title`);
    title.scrollIntoView({ block: "start" });
    title.focus({ preventScroll: true });
  }
}

function theme(chosen) {
  if (chosen === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = chosen;
  $("theme").textContent = { auto: "Auto", light: "Light", dark: "Dark" }[chosen];
  $("theme").setAttribute("aria-label", `Colours: ${{ auto: "as the system", light: "light", dark: "dark" }[chosen]}`);
}

$("theme").addEventListener("click", () => {
  const next = THEMES[(THEMES.indexOf(document.documentElement.dataset.theme ?? "auto") + 1) % THEMES.length];
  theme(next);
  try {
    localStorage.setItem("holdfast-theme", next);
  } catch {
    // Storage is blocked: the choice lasts as long as the page.
  }
});
$("skip").addEventListener("click", (event) => { event.preventDefault(); $("main").focus(); });
addEventListener("keydown", (event) => {
  const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
  if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey) {
    event.preventDefault();
    search.focus();
  } else if (event.key === "Escape" && explanation.isOpen() && !typing) location.hash = "#/";
});

// One tooltip for slots and dates on the axis, for the pointer and for the focus.
const tip = $("tip");
function showTip(event) {
  const target = event.target.closest?.("[data-tip]");
  tip.hidden = !target;
  if (!target) return;
  tip.textContent = target.dataset.tip;
  const box = target.getBoundingClientRect();
  tip.style.left = `${Math.max(8, Math.min(innerWidth - tip.offsetWidth - 8, box.left + box.width / 2 - tip.offsetWidth / 2))}px`;
  tip.style.top = `${box.top > 60 ? box.top - tip.offsetHeight - 6 : box.bottom + 6}px`;
}
addEventListener("pointerover", showTip);
addEventListener("focusin", showTip);
addEventListener("scroll", () => { tip.hidden = true; }, { capture: true, passive: true });

theme(document.documentElement.dataset.theme ?? "auto");
addEventListener("hashchange", go);
go();
setInterval(tick, 1000);
setInterval(() => lanes.tick(), 60_000);
readAll();
let connected = false;
live({
  onOpen() {
    if (connected) readAll(); // the first time, everything is being read already
    connected = true;
  },
  onUpdate: update,
  onState: connection,
});
