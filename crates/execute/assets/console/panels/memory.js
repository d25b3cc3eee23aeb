// Memory: what the limit is spent on, now and over time.

import { byId, shares, write } from "../dom.js";
import { bytes, percent } from "../format.js";
import { memoryByState } from "../history.js";
import { TimeChart } from "../chart.js";

/** What memory holds, from the bottom of the chart. */
const PARTS = [
  { column: "live_bytes", label: "live", token: "live" },
  { column: "dead_bytes", label: "reclaimable", token: "dead" },
  { column: "index_bytes", label: "index", token: "index" },
  { column: "overhead_bytes", label: "overhead", token: "overhead" },
  { column: "buffer_bytes", label: "buffers", token: "buffers" },
  { column: "free_bytes", label: "free", token: "free" },
];

/** Memory by state. */
export class Memory {
  constructor(history) {
    this.panel = byId("memory");
    this.bar = this.panel.querySelector(".shares");
    this.chart = new TimeChart(this.panel, {
      history,
      label: "Memory by state over time",
      format: bytes,
      scale: "stacked",
      least: 1024,
      series: PARTS,
    });
  }

  /** Shows the newest answer. */
  update({ memory }) {
    this.chart.update();
    const states = memoryByState(memory);
    const parts = PARTS.map((part) => ({
      ...part,
      value: states[part.column],
      title: `${part.label}: ${bytes(states[part.column])}`,
    }));
    shares(this.bar, parts, parts.map((part) => part.title).join(", "));
    write(
      byId("memory-note"),
      `${bytes(memory.limit_bytes)} allowed, ${bytes(memory.rss_bytes)} resident`,
    );
    write(byId("memory-words"), inWords(states, memory.limit_bytes));
  }
}

function inWords({ dead_bytes, free_bytes }, limit_bytes) {
  const dead = dead_bytes / limit_bytes;
  const wait =
    dead > 0
      ? `${percent(dead)} is reclaimable: the server frees it before it evicts live items.`
      : "Nothing is reclaimable.";
  const free = free_bytes / limit_bytes;
  return free < 0.02 ? `The memory is full. ${wait}` : `${percent(free)} is free. ${wait}`;
}
