// Hits: the share of reads that found their item, and why the others did not.

import { byId, each, row, shares, swatch, write } from "../dom.js";
import { percent, rate } from "../format.js";
import { REASONS } from "../history.js";
import { TimeChart } from "../chart.js";

const WORDS = {
  never_stored: {
    token: "never-stored",
    label: "never stored",
    meaning: "no client stored it lately",
  },
  expired: { token: "expired", label: "expired", meaning: "its deadline had passed" },
  evicted: { token: "evicted", label: "evicted", meaning: "the cache was full" },
  deleted: { token: "deleted", label: "deleted", meaning: "a client deleted or flushed it" },
};

/** Hit ratio over time, and the reasons of the last minute's misses. */
export class Hits {
  constructor(history) {
    this.history = history;
    this.panel = byId("hits");
    this.bar = this.panel.querySelector(".shares");
    this.rows = this.panel.querySelector("tbody");
    this.chart = new TimeChart(this.panel, {
      history,
      label: "Hit ratio over time",
      format: percent,
      scale: "share",
      series: [{ column: "hit_ratio", label: "hit ratio", token: "good" }],
    });
  }

  /** Shows the newest answer. */
  update(status) {
    const isEmpty = status.operations.hits + status.operations.misses === 0;
    this.panel.classList.toggle("is-empty", isEmpty);
    this.chart.update();
    const minute = this.history.window;
    const counts = REASONS.map((name) =>
      minute ? Math.max(0, status.misses[name] - minute.before.misses[name]) : 0,
    );
    const all = counts.reduce((sum, one) => sum + one, 0);
    const parts = REASONS.map((name, index) => ({
      ...WORDS[name],
      value: counts[index],
      rate: minute ? counts[index] / minute.elapsed_s : null,
      share: all > 0 ? counts[index] / all : null,
      title: WORDS[name].label,
    }));
    const label = parts.map((part) => `${part.label} ${percent(part.share)}`).join(", ");
    shares(this.bar, parts, `Misses of the last minute: ${label}`);
    each(this.rows, parts, startRow, updateRow);
  }
}

function startRow(part) {
  const line = row(4);
  line.cells[0].append(swatch(part.token), part.label);
  line.cells[3].append(part.meaning);
  return line;
}

function updateRow(line, part) {
  write(line.cells[1], rate(part.rate));
  write(line.cells[2], percent(part.share));
}
