// Poller: asks the server once a second, and tells how it stands.
//
// connecting -> live; live -> gone when an answer is missing, with ever longer waits between tries;
// gone -> live by itself. 401 leads to token, 403 to refused; a hidden page asks nothing.

const STATUS_URL = "/v1/console/status";
const HISTORY_URL = "/v1/console/history";
const PACE_MS = 1000;
const WAIT_MS_MAX = 15_000;
const PATIENCE_MS = 5000;
const TOKEN_KEY = "cellar-token";

/** Sends a request with the token, if there is one. */
export function request(url, options = {}) {
  const token = sessionStorage.getItem(TOKEN_KEY);
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  return fetch(url, { ...options, headers, cache: "no-store", credentials: "same-origin" });
}

/** The response's status, 0 if there is none, and what it says if all is well. */
async function ask(url) {
  try {
    const response = await request(url, { signal: AbortSignal.timeout(PATIENCE_MS) });
    return { code: response.status, answer: response.ok ? await response.json() : null };
  } catch {
    return { code: 0, answer: null };
  }
}

/** What the server remembers, by steps of "1s" or "1m"; null if it does not tell. */
export const askHistory = async (step) => (await ask(`${HISTORY_URL}?step=${step}`)).answer;

/** How the server stands; null if it does not tell. */
export const askStatus = async () => (await ask(STATUS_URL)).answer;

/** Keeps a token, or a user and a password, until the tab is closed. */
export function keepToken(secret, user = "") {
  const bytes = new TextEncoder().encode(`${user}:${secret}`);
  const token = user ? btoa(String.fromCharCode(...bytes)) : secret.trim();
  sessionStorage.setItem(TOKEN_KEY, token);
}

/** Whether a token was sent with the requests. */
export const hasToken = () => sessionStorage.getItem(TOKEN_KEY) !== null;

/** Asks again and again; `onStatus(answer)` and `onState(state, details)` hear of it. */
export class Poller {
  #timer = 0;
  #failures = 0;
  #round = 0;

  constructor({ onStatus, onState }) {
    this.onStatus = onStatus;
    this.onState = onState;
    document.addEventListener("visibilitychange", () => {
      if (document.hidden) this.stop();
      else this.askNow();
    });
  }

  /** Asks at once, and then every second. */
  askNow() {
    this.stop();
    this.#ask(this.#round);
  }

  /** Asks no more until told so; an answer that is under way is dropped. */
  stop() {
    clearTimeout(this.#timer);
    this.#round += 1;
  }

  async #ask(round) {
    const start = performance.now();
    const outcome = await ask(STATUS_URL);
    if (round === this.#round) this.#take(outcome, start);
  }

  async #take({ code, answer }, start) {
    if (answer) {
      this.#failures = 0;
      this.onState("live");
      const round = this.#round;
      await this.onStatus(answer);
      const wait_ms = Math.max(0, PACE_MS - (performance.now() - start));
      if (round === this.#round) this.#askIn(wait_ms);
    } else if (code === 401) {
      this.onState("token");
    } else if (code === 403) {
      this.onState("refused");
      this.#askIn(WAIT_MS_MAX);
    } else {
      const wait_ms = Math.min(PACE_MS * 2 ** this.#failures, WAIT_MS_MAX);
      this.#failures += 1;
      this.onState("gone", { wait_ms, code });
      this.#askIn(wait_ms);
    }
  }

  #askIn(ms) {
    const round = this.#round;
    this.#timer = setTimeout(() => this.#ask(round), ms);
  }
}
