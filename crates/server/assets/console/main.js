// The console: asks the server each second and shows its answers in panels.

import { repaint } from "./chart.js";
import { ConnectionState } from "./connection_state.js";
import { choice } from "./dom.js";
import { History } from "./history.js";
import { Connections } from "./panels/connections.js";
import { Expiry } from "./panels/expiry.js";
import { Figures } from "./panels/figures.js";
import { Hits } from "./panels/hits.js";
import { HotKeys } from "./panels/hot_keys.js";
import { Latency } from "./panels/latency.js";
import { LookUp } from "./panels/look_up.js";
import { Memory } from "./panels/memory.js";
import { Settings } from "./panels/settings.js";
import { Throughput } from "./panels/throughput.js";
import { WhatIf } from "./panels/what_if.js";
import { Poller } from "./poller.js";

const history = new History();
const lookUp = new LookUp();
const panels = [
  new Figures(history),
  new Throughput(history),
  new Latency(history),
  new Hits(history),
  new Memory(history),
  new WhatIf(history),
  new Expiry(),
  new HotKeys((wanted) => lookUp.open(wanted)),
  new Connections(history),
  lookUp,
  new Settings(),
];

const state = new ConnectionState(() => poller.askNow());
const poller = new Poller({
  onState: (name, details) => state.set(name, details),
  onStatus: (status) => {
    history.add(status);
    state.update(status);
    for (const panel of panels) panel.update(status);
  },
});

function showSpan(seconds) {
  for (const panel of panels) {
    if (panel.chart && "span_s" in panel.chart) panel.chart.span_s = Number(seconds);
  }
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
