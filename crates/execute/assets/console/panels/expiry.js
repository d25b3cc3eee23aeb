// Expiry: what leaves because its time is over, in the next minute, hour or day.

import { byId, choice, each, element, write } from "../dom.js";
import { bytes, count, percent, span } from "../format.js";
import { axis, BYTE_STEPS, draw, legend, line, valueAxis } from "../chart.js";

const STEP_MS = { minute: 1000, hour: 60_000, day: 3_600_000 };
const NAMES = { minute: "the next minute", hour: "the next hour", day: "the next day" };
/** Where the axis has its labels, in seconds. */
const SPLITS = {
  minute: [0, 15, 30, 45, 60],
  hour: [0, 900, 1800, 2700, 3600],
  day: [0, 21_600, 43_200, 64_800, 86_400],
};

/** Bars of bytes by the time that they have left. */
export class Expiry {
  #expiry = null;
  #live_bytes = 0;

  constructor() {
    this.panel = byId("expiry");
    this.host = this.panel.querySelector(".chart");
    this.facts = byId("expiry-facts");
    this.reach = choice("expiry-span", (chosen) => {
      this.reach = chosen;
      this.#show();
    });
    this.legend = legend(this.panel.querySelector(".legend"), [
      { token: "expired", label: "expires" },
    ]);
    this.chart = draw(this.host, this.#options(), [[], []]);
  }

  /** Shows the newest answer. */
  update(status) {
    this.#expiry = status.expiry;
    this.#live_bytes = status.memory.live_bytes;
    const isEmpty = status.items.now === 0 && status.expiry.overdue.bytes === 0;
    this.panel.classList.toggle("is-empty", isEmpty);
    if (!isEmpty) this.#show();
  }

  #options() {
    return {
      scales: {
        x: { time: false, range: () => [0, SPLITS[this.reach].at(-1)] },
        y: { range: (_, __, most) => [0, Math.max(1024, (most ?? 0) * 1.1)] },
      },
      cursor: { y: false, drag: { x: false, y: false }, points: { show: false } },
      axes: [
        axis({
          splits: () => SPLITS[this.reach],
          values: (_, splits) => splits.map((s) => (s === 0 ? "now" : span(s * 1000))),
          grid: { show: false },
        }),
        valueAxis(bytes, { incrs: BYTE_STEPS }),
      ],
      series: [
        {},
        line({
          token: "expired",
          fill: 0.75,
          width: 0,
          paths: uPlot.paths.bars({ size: [0.8, 60], align: 1 }),
        }),
      ],
      hooks: { setCursor: [() => this.#writeLegend()] },
    };
  }

  #show() {
    if (!this.#expiry) return;
    const steps = this.#expiry[this.reach];
    const step_s = STEP_MS[this.reach] / 1000;
    this.chart.setData([
      steps.map((step) => step.until_s - step_s),
      steps.map((step) => step.bytes),
    ]);
    this.#writeLegend();
    this.#writeFacts(steps);
  }

  #writeLegend() {
    if (!this.#expiry) return;
    const steps = this.#expiry[this.reach];
    const step = steps[this.chart.cursor.idx ?? -1];
    const what = step ?? sum(steps);
    const until_ms = (step?.until_s ?? 0) * 1000;
    const from_ms = until_ms - STEP_MS[this.reach];
    const from = from_ms === 0 ? "now" : span(from_ms);
    const when = step ? `from ${from} to ${span(until_ms)}` : `in ${NAMES[this.reach]}`;
    const text = `about ${count(what.items)} items, ${bytes(what.bytes)} ${when}`;
    this.legend([text]);
    this.host.setAttribute("aria-label", `Expiry timeline: ${text} expire.`);
  }

  #writeFacts(steps) {
    const all = sum(steps).bytes;
    const share = this.#live_bytes > 0 ? Math.min(1, all / this.#live_bytes) : 0;
    const { overdue, later, never } = this.#expiry;
    const facts = [
      [`In ${NAMES[this.reach]}`, `${bytes(all)}, ${percent(share)} of all live bytes`],
      ["Later than a day", amount(later)],
      ["Never", amount(never)],
      ["Expired, not yet reclaimed", amount(overdue)],
    ];
    each(
      this.facts,
      facts.flat(),
      () => element(this.facts.children.length % 2 === 0 ? "dt" : "dd"),
      write,
    );
  }
}

const amount = (part) => `${bytes(part.bytes)}, about ${count(part.items)} items`;

function sum(steps) {
  const add = (name) => steps.reduce((all, step) => all + step[name], 0);
  return { items: add("items"), bytes: add("bytes") };
}
