// Latency: what the server takes for a request, by protocol, from differences of its histograms.

import { byId, choice, each, row, swatch, write } from "../dom.js";
import { count, micros } from "../format.js";
import { difference, quantile, total } from "../histogram.js";
import { PROTOCOLS } from "../history.js";
import { TimeChart } from "../chart.js";

const LABELS = { memcached: "memcached", resp: "RESP", http: "HTTP" };
const columnsOf = (protocol) => ["p50", "p99", "p999"].map((name) => `${protocol}_${name}`);

/** Percentiles over time for one protocol, and of the last minute for all. */
export class Latency {
  #chosenByReader = false;

  constructor(history) {
    this.history = history;
    this.panel = byId("latency");
    this.rows = this.panel.querySelector("tbody");
    const protocol = choice("latency-protocol", (chosen) => {
      this.#chosenByReader = true;
      this.#show(chosen);
    });
    this.chart = new TimeChart(this.panel, {
      history,
      label: "Latency percentiles over time",
      format: micros,
      scale: "log",
      series: [
        { column: "", label: "p50", token: "good" },
        { column: "", label: "p99", token: "warn" },
        { column: "", label: "p99.9", token: "bad" },
      ],
    });
    this.#show(protocol);
  }

  /** Shows the newest answer. */
  update(status) {
    const counts = PROTOCOLS.map((name) => status.latency_us[name].count);
    this.panel.classList.toggle("is-empty", counts.every((one) => one === 0));
    this.#chooseBusiest(counts);
    this.chart.update();
    const before = this.history.window?.before;
    each(this.rows, PROTOCOLS, startRow, (line, protocol) => {
      const spent = difference(status.latency_us[protocol], before?.latency_us[protocol]);
      const texts = [0.5, 0.99, 0.999].map((q) => micros(quantile(spent, q)));
      [...texts, count(spent ? total(spent) : null)].forEach((text, index) =>
        write(line.cells[index + 1], text),
      );
    });
  }

  /** Until the reader chooses, the protocol with the most requests is shown. */
  #chooseBusiest(counts) {
    if (this.#chosenByReader) return;
    const busiest = PROTOCOLS[counts.indexOf(Math.max(...counts))];
    const button = byId("latency-protocol").querySelector(`[value=${busiest}]`);
    if (!button.checked) {
      button.checked = true;
      this.#show(busiest);
    }
  }

  #show(protocol) {
    this.chart.columns = columnsOf(protocol);
  }
}

function startRow(protocol) {
  const line = row(5);
  line.cells[0].append(swatch(protocol), LABELS[protocol]);
  return line;
}
