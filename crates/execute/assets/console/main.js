// The console: asks the server each second and shows its answers in panels.

import { repaint, showEvents, TimeChart } from "./chart.js";
import { ConnectionState } from "./connection_state.js";
import { choice } from "./dom.js";
import { History, SECONDS_SPAN_S } from "./history.js";
import { Compression } from "./panels/compression.js";
import { Connections } from "./panels/connections.js";
import { Expiry } from "./panels/expiry.js";
import { Events } from "./panels/events.js";
import { Figures } from "./panels/figures.js";
import { Hits } from "./panels/hits.js";
import { HotKeys } from "./panels/hot_keys.js";
import { Latency } from "./panels/latency.js";
import { LookUp } from "./panels/look_up.js";
import { Memory } from "./panels/memory.js";
import { Settings } from "./panels/settings.js";
import { Throughput } from "./panels/throughput.js";
import { WhatIf } from "./panels/what_if.js";
import { askHistory, askStatus, Poller } from "./poller.js";

const MINUTE_MS = 60_000;
const history = new History();
const lookUp = new LookUp();
const panels = [
  new Figures(history),
  new Events(),
  new Throughput(history),
  new Latency(history),
  new Hits(history),
  new Memory(history),
  new WhatIf(history),
  new Expiry(),
  new HotKeys((wanted) => lookUp.open(wanted)),
  new Connections(history),
  lookUp,
  new Compression(),
  new Settings(),
];
const timeCharts = panels.map(({ chart }) => chart).filter((chart) => chart instanceof TimeChart);

const state = new ConnectionState(() => poller.askNow());
const poller = new Poller({
  onState: (name, details) => state.set(name, details),
  onStatus: async (answer) => {
    const status = history.misses(answer) ? await catchUp(answer) : answer;
    history.add(status);
    state.update(status);
    showEvents(status.events);
    for (const panel of panels) panel.update(status);
    if (span_s > SECONDS_SPAN_S) refreshMinutes();
  },
});

/**
 * Loads what the server remembers, so that the page is whole at once, and returns the answer to go
 * on from: one newer than the rows, whose time has to rise. It is `answer` if nothing was loaded.
 */
async function catchUp(answer) {
  const remembered = await askHistory("1s");
  const newer = remembered && (await askStatus());
  if (!newer) return answer;
  history.load(remembered);
  return newer;
}

let span_s = 300;
let minutesAsked_ms = -Infinity;

/** Asks for the rows of minutes, if that is a minute ago. */
async function refreshMinutes() {
  if (performance.now() - minutesAsked_ms < MINUTE_MS) return;
  minutesAsked_ms = performance.now();
  const remembered = await askHistory("1m");
  if (!remembered) return;
  history.loadMinutes(remembered);
  for (const chart of timeCharts) chart.update();
}

function showSpan(seconds) {
  span_s = Number(seconds);
  for (const chart of timeCharts) chart.span_s = span_s;
  if (span_s > SECONDS_SPAN_S) refreshMinutes();
}

function setTheme(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  try {
    localStorage.setItem("cellar-theme", theme);
  } catch {
    // Storage is refused: the choice lasts as long as the page.
  }
  repaint();
}

const theme = document.documentElement.dataset.theme ?? "auto";
document.querySelector(`#theme [value=${theme}]`).checked = true;
choice("theme", setTheme);
choice("span", showSpan);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
poller.askNow();
