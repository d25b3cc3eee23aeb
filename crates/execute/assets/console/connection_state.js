// Connection state: what the page says about the server as a whole: pill, banner, title, token.

import { byId, write } from "./dom.js";
import { clock, span } from "./format.js";
import { hasToken, keepToken } from "./poller.js";

const PILL = {
  connecting: "Connecting",
  live: "Live",
  gone: "No answer",
  token: "Locked",
  refused: "Refused",
};

/** What became of the cache of a server before this one, if its memory outlives it. */
function restored({ restored }) {
  if (!restored) return "";
  const why = restored.empty_because;
  const left = restored.unchecked_bytes;
  if (left > 0) return ` · checks items of a killed server: ${Math.ceil(left / 2 ** 20)} MiB left`;
  return why ? ` · started empty: ${why}` : ` · restored ${restored.items.toLocaleString("en")} items`;
}

/** Shows how the server stands; `askNow` tries at once. */
export class ConnectionState {
  #seen_unix_s = null;
  #countdown = 0;

  constructor(askNow) {
    this.askNow = askNow;
    this.root = document.documentElement;
    byId("banner-button").addEventListener("click", askNow);
    const dialog = byId("token-dialog");
    // Without a token there is nothing to see; the dialog stays.
    dialog.addEventListener("cancel", (event) => event.preventDefault());
    dialog.addEventListener("close", () => {
      keepToken(byId("token-input").value, byId("user-input").value.trim());
      askNow();
    });
  }

  /** Takes a new state of the poller. */
  set(state, details = {}) {
    clearInterval(this.#countdown);
    this.root.dataset.state = state;
    write(byId("status"), PILL[state]);
    if (state === "live") this.#banner(null);
    if (state === "token") this.#askForToken();
    if (state === "gone") this.#countDown(details);
    if (state === "refused") {
      this.#banner(
        "This server shows its console on its own machine only. " +
          "From elsewhere it needs a token: start it with --http-token.",
      );
    }
  }

  /** Takes an answer: what the header shows of the server. */
  update({ server }) {
    this.#seen_unix_s = Date.now() / 1000;
    const address = location.host;
    const text = `${address} · version ${server.version} · up ${span(server.uptime_ms)}${restored(server)}`;
    write(byId("server-facts"), text);
    document.title = `Cellar ${address}`;
    if (server.draining) {
      this.#banner("The server is shutting down and finishes running requests.", true);
    }
  }

  #countDown({ wait_ms, code }) {
    const next = Date.now() + wait_ms;
    const since =
      this.#seen_unix_s === null
        ? "The server does not answer."
        : `No answer from the server since ${clock(this.#seen_unix_s)}. The values are from then.`;
    const why = code > 0 ? ` It answers with status ${code}.` : "";
    this.#banner(since + why);
    const tick = () => {
      const left_s = Math.max(0, Math.ceil((next - Date.now()) / 1000));
      write(byId("banner-countdown"), `Next try in ${left_s} s.`);
    };
    tick();
    this.#countdown = setInterval(tick, 1000);
  }

  #banner(text, isMild = false) {
    const banner = byId("banner");
    banner.hidden = text === null;
    banner.classList.toggle("is-mild", isMild);
    byId("banner-button").hidden = isMild;
    write(byId("banner-text"), text ?? "");
    write(byId("banner-countdown"), "");
  }

  #askForToken() {
    this.#banner(null);
    byId("token-problem").hidden = !hasToken();
    byId("token-input").value = "";
    const dialog = byId("token-dialog");
    if (!dialog.open) dialog.showModal();
  }
}
