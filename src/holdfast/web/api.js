// The JSON API: relative addresses only, so that the page also works below a proxy's path.
import { setClock } from "./text.js";

const wait = (ms, signal) =>
  new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    signal?.addEventListener("abort", () => (clearTimeout(timer), reject(signal.reason)), { once: true });
  });

export class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

// GET. A replica that does not lead answers 503, and behind a Service the next request may reach the one that leads.
export async function get(path, { query, signal, attempts = 6 } = {}) {
  const words = new URLSearchParams();
  for (const [key, value] of Object.entries(query ?? {})) {
    if (value !== "" && value !== undefined && value !== null) words.set(key, value);
  }
  const url = `./api/v1/${path}${words.size ? `?${words}` : ""}`;
  for (let attempt = 1; ; attempt += 1) {
    try {
      const response = await fetch(url, { signal, cache: "no-store", credentials: "same-origin" });
      if (response.ok) {
        const found = await response.json();
        setClock(found.at);
        return found;
      }
      const body = await response.json().catch(() => ({}));
      throw new ApiError(response.status, String(body.error ?? `the server answered ${response.status}`));
    } catch (error) {
      if (signal?.aborted) throw error;
      const again = !(error instanceof ApiError) || error.status === 503;
      if (!again || attempt >= attempts) throw error;
      await wait(Math.min(250 * 2 ** (attempt - 1), 4000), signal);
    }
  }
}

const QUIET_MS = 45_000; // without an update for so long, the status is read to see whether the connection works

// Server-sent events. `onUpdate` gets each document, `onState` whether the stream is open and since when it is not.
export function live({ onOpen, onUpdate, onState }) {
  let source = null;
  let timer = 0;
  let failures = 0;
  let lostAt = 0;
  let heardAt = Date.now();

  const lost = () => {
    source?.close();
    source = null;
    lostAt ||= Date.now();
    failures += 1;
    onState(lostAt);
    timer = setTimeout(open, Math.min(500 * 2 ** Math.min(failures, 5), 10_000) * (0.75 + Math.random() / 2));
  };
  function open() {
    clearTimeout(timer);
    timer = 0;
    source = new EventSource("./api/v1/events");
    source.onopen = () => {
      failures = 0;
      lostAt = 0;
      heardAt = Date.now();
      onState(0);
      onOpen();
    };
    source.addEventListener("update", (event) => {
      heardAt = Date.now();
      let update;
      try {
        update = JSON.parse(event.data);
      } catch {
        return; // cut off; the next one is whole
      }
      onUpdate(update);
    });
    source.onerror = lost;
  }
  // A hidden tab needs no stream: a browser opens at most six connections to a server, also with many tabs.
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) return void (source || timer || open());
    source?.close();
    source = null;
  });
  // Comments of the stream are not visible here, so a connection that was cut without a reset looks open.
  setInterval(async () => {
    if (!source || document.hidden || Date.now() - heardAt < QUIET_MS) return;
    heardAt = Date.now();
    const watched = source;
    await get("status", { attempts: 3 }).catch(() => source === watched && lost());
  }, 5000);
  open();
}
