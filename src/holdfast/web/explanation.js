// The panel with the explanation of one object. Its address is #/explain/KIND/[NAMESPACE/]NAME.
import { get } from "./api.js";
import { $, fill, fullLink, h, link, name, NAMESPACED, route, throttle } from "./dom.js";
import { decision } from "./decisions.js";
import { absolute, KIND, prose, time } from "./text.js";

const FACT_KINDS = new Set(["node", "nodeclaim", "nodepool", "reservation", "jobset", "leaderworkerset", "podgroup", "provisioningrequest"]);

export function createExplanation() {
  const panel = $("panel");
  let current = ""; // the path that is shown
  let abort = null;
  let opener = null;
  let shown = "";

  function close() {
    abort?.abort();
    current = "";
    shown = "";
    panel.hidden = true;
    document.body.classList.remove("with-panel");
    (opener?.isConnected ? opener : $("main")).focus({ preventScroll: true });
    opener = null;
  }

  function frame(kind, object, ...children) {
    const scroll = panel.scrollTop;
    fill(panel,
      h("div", { class: "panel-head" },
        h("p", { class: "kind" }, KIND[kind] ?? kind),
        h("div", { class: "panel-tools" },
          navigator.clipboard ? h("button", { type: "button", class: "quiet", "data-key": "copy", onclick: copy }, "Copy link") : null,
          h("button", { type: "button", class: "quiet", "data-key": "close", "aria-label": "Close the explanation", onclick: () => { location.hash = "#/"; } }, "Close"))),
      h("h2", { id: "panel-title", tabindex: "-1", "data-key": "title" }, name(object)),
      children);
    panel.scrollTop = scroll;
  }
  async function copy(event) {
    const button = event.currentTarget;
    try {
      await navigator.clipboard.writeText(location.href);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Copy the address bar";
    }
  }

  const part = (title, ...content) => h("section", {}, h("h3", {}, title), content);
  const list = (title, lines) => (lines?.length ? part(title, h("ul", {}, lines.map((line) => h("li", {}, prose(line))))) : null);

  function fact(one) {
    const kind = one.name.toLowerCase().replace(/\s/g, "");
    const isLink = FACT_KINDS.has(kind) && /^\S+$/.test(one.value);
    const value = !isLink ? prose(one.value) : NAMESPACED.has(kind) ? fullLink(kind, one.value) : link(kind, "", one.value);
    return h("div", {}, h("dt", {}, one.name), h("dd", {}, value));
  }

  function slots(uses) {
    return part("Slots used here", uses.length ? h("table", { class: "list" },
      h("thead", {}, h("tr", {}, ["Node", "NodeClaim", "State", "Since"].map((head) => h("th", { scope: "col" }, head)))),
      h("tbody", {}, uses.map((use) => h("tr", {},
        h("td", {}, use.node ? link("node", "", use.node) : h("span", { class: "none" }, "not joined")),
        h("td", {}, use.nodeClaim ? link("nodeclaim", "", use.nodeClaim) : h("span", { class: "none" }, "none")),
        h("td", {}, use.state), h("td", {}, use.since ? time(use.since, "relative") : ""))))) : h("p", { class: "note" }, "No instance of this cluster is in a slot."));
  }

  function show(doc, uses) {
    const full = doc.namespace ? `${doc.namespace}/${doc.name}` : doc.name;
    const considered = doc.considered ?? [];
    const facts = (doc.facts ?? []).filter((one) => !uses || !/^Slot \d+$/.test(one.name)); // the table of slots has them
    frame(doc.kind.toLowerCase(), full,
      h("p", { class: "what" }, prose(doc.what)),
      doc.since ? h("p", { class: "note" }, "Since ", time(doc.since)) : null,
      doc.computed ? h("p", { class: "note warn" }, doc.computed) : null,
      list("Why", doc.why),
      considered.length ? part("What was considered, and why it was not used", h("dl", { class: "considered" }, considered.map((one) => h("div", {}, h("dt", {}, prose(one.subject)), h("dd", {}, prose(one.text)))))) : null,
      list("What would change it", doc.changes),
      doc.next ? part("Next", h("p", {}, prose(doc.next))) : null,
      facts.length ? part("Facts", h("dl", { class: "facts" }, facts.map(fact))) : null,
      uses ? slots(uses) : null,
      doc.decisions?.length ? part("Decisions", h("ol", { class: "feed" }, doc.decisions.map(decision))) : null,
      h("p", { class: "note" }, `As of ${absolute(doc.at)}.`));
  }

  async function read(first) {
    const path = current;
    const words = path.split("/").map(decodeURIComponent);
    abort?.abort();
    abort = new AbortController();
    const { signal } = abort;
    try {
      const wantsSlots = words[0] === "reservation" && !words[1].includes(",");
      const [doc, found] = await Promise.all([
        get(`explain/${path}`, { signal }),
        wantsSlots ? get("slots", { query: { reservations: words[1] }, signal }).catch(() => null) : null,
      ]);
      if (path !== current) return;
      const uses = wantsSlots ? (found?.items?.[words[1]] ?? []) : null;
      const text = JSON.stringify([{ ...doc, at: 0 }, uses]);
      if (text === shown) return;
      // An open decision must not close while it is read.
      if (!first && panel.querySelector("details[open]")) return;
      shown = text;
      show(doc, uses);
    } catch (error) {
      if (error.name === "AbortError" || path !== current) return;
      if (!first && error.status !== 404) return; // the last answer stays; the header shows that the page is not connected
      shown = "";
      const object = words.slice(1).join("/");
      frame(words[0], object, h("p", { class: "what" }, error.status === 404 ? `There is no such ${KIND[words[0]] ?? words[0]}, or it was deleted. Decisions about it may still be listed: filter the decisions by its name.` : `The explanation cannot be read: ${error.message}`));
    }
    if (first) $("panel-title")?.focus({ preventScroll: true });
  }

  const again = throttle(() => current && read(false), 3000);
  return {
    // `path` is what follows #/explain/, still encoded; empty closes the panel.
    open(path) {
      if (path === current) return;
      if (!path) return void (current && close());
      if (!current) opener = document.activeElement === document.body ? null : document.activeElement;
      let words;
      try {
        words = path.split("/").map(decodeURIComponent);
      } catch {
        words = [];
      }
      const href = words.length === 3 ? route(words[0], words[1], words[2]) : words.length === 2 ? route(words[0], "", words[1]) : null;
      if (!href) return void (location.hash = "#/");
      current = href.slice("#/explain/".length);
      shown = "";
      panel.hidden = false;
      document.body.classList.add("with-panel");
      panel.scrollTop = 0;
      frame(words[0], words.slice(1).join("/"), h("p", { class: "note" }, "Loading"));
      $("panel-title").focus({ preventScroll: true });
      read(true);
    },
    update: again,
    isOpen: () => current !== "",
  };
}
