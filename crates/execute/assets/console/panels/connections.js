// Connections and threads: who is connected over what, and how busy each event loop is.

import { byId, each, element, row, write } from "../dom.js";
import { count, percent, rate } from "../format.js";
import { busyShares } from "../history.js";
import { TimeChart } from "../chart.js";

/** Share of time from which on a thread is near its end. */
const BUSY = 0.85;

/** Open connections by protocol, and the load of the threads. */
export class Connections {
  constructor(history) {
    this.history = history;
    const panel = byId("connections");
    this.rows = panel.querySelector("tbody");
    this.chart = new TimeChart(panel, {
      history,
      label: "Open connections by protocol",
      format: count,
      least: 4,
      series: [
        { column: "memcached_clients", label: "memcached", token: "memcached" },
        { column: "resp_clients", label: "RESP", token: "resp" },
        { column: "http_clients", label: "HTTP", token: "http" },
      ],
    });
  }

  /** Shows the newest answer. */
  update(status) {
    const { accepted, refused } = status.connections;
    write(byId("connections-note"), `${count(accepted)} accepted, ${count(refused)} refused`);
    this.chart.update();
    const minute = this.history.window;
    const loads = busyShares(status, minute?.before, minute?.elapsed_s);
    const lines = status.threads.map((thread, index) => ({
      thread,
      busy: loads[index],
      rate: rateOf(thread, minute),
    }));
    each(this.rows, lines, startRow, updateRow);
  }
}

function rateOf(thread, minute) {
  const earlier = minute?.before.threads.find((one) => one.name === thread.name);
  return earlier ? (thread.requests - earlier.requests) / minute.elapsed_s : null;
}

function startRow() {
  const line = row(4);
  const meter = element("span", { class: "meter", "aria-hidden": "true" }, element("span"));
  line.cells[1].append(meter, element("span"));
  return line;
}

function updateRow(line, { thread, busy, rate: requests_per_s }) {
  const [meter, text] = line.cells[1].children;
  const fill = meter.firstElementChild;
  fill.style.width = `${(busy ?? 0) * 100}%`;
  fill.style.setProperty("--colour", busy >= BUSY ? "var(--warn)" : "var(--live)");
  write(line.cells[0], thread.name);
  write(text, percent(busy === null ? null : Math.round(busy * 100) / 100));
  write(line.cells[2], rate(requests_per_s));
  write(line.cells[3], count(thread.connections));
}
