// What if: the estimated share of the last minute's reads that miss, by memory, and one question
// to it.

import { byId, element, write } from "../dom.js";
import { bytes, count, factor, percent, percentShort } from "../format.js";
import { axis, draw, line, valueAxis } from "../chart.js";

/** A change of the miss ratio below this is said to be none. */
const NOTABLE = 0.002;

/** The miss-ratio curve. */
export class WhatIf {
  #points = [];
  #present_bytes = 0;
  #pointed = null;

  constructor(history) {
    this.history = history;
    this.panel = byId("what-if");
    this.host = this.panel.querySelector(".chart");
    this.slider = byId("what-if-factor");
    this.slider.addEventListener("input", () => this.#show());
    this.chart = draw(this.host, this.#options(), [[], [], []]);
  }

  /** Shows the newest answer. */
  update(status) {
    this.#present_bytes = status.curve.find((point) => point.factor === 1)?.memory_bytes;
    const curve = this.history.window?.curve ?? [];
    this.#points = curve.map((point) => ({ ...point, place: Math.log2(point.factor) }));
    this.panel.classList.toggle("is-empty", this.#points.length < 2);
    this.#show();
  }

  #options() {
    return {
      scales: {
        x: { time: false, range: [-2.15, 2.15] },
        y: { range: (_, __, most) => [0, Math.min(1, Math.max(0.01, (most ?? 0) * 1.15))] },
      },
      cursor: { y: false, drag: { x: false, y: false }, points: { show: false } },
      axes: [
        axis({ size: 42, splits: () => [-2, -1, 0, 1, 2], values: (_, at) => this.#labels(at) }),
        valueAxis(percentShort),
      ],
      series: [
        {},
        { ...line({ token: "accent", fill: 0.1, width: 2 }), points: { show: true, size: 6 } },
        { ...line({ token: "ink", width: 0 }), points: { show: true, size: 11, width: 2 } },
      ],
      hooks: { setCursor: [(chart) => this.#point(chart)] },
    };
  }

  #labels(places) {
    return places.map((place) => `${factor(2 ** place)}\n${bytes(this.#bytesAt(place))}`);
  }

  /** The simulated memory at a place: a multiple of what the server was started with. */
  #bytesAt(place) {
    return this.#present_bytes * 2 ** place;
  }

  /** The pointer asks about the place under it; when it leaves, the slider's question is back. */
  #point(chart) {
    const { left } = chart.cursor;
    const place = left >= 0 ? Math.round(chart.posToVal(left, "x") * 4) / 4 : null;
    const pointed = place === null ? null : Math.min(2, Math.max(-2, place));
    if (pointed !== this.#pointed) {
      this.#pointed = pointed;
      this.#show();
    }
  }

  #show() {
    if (this.#points.length < 2) return;
    const place = this.#pointed ?? Number(this.slider.value);
    const asked = missRatioAt(this.#points, place);
    const places = this.#points.map((point) => point.place);
    const all = [...new Set([...places, place])].sort((a, b) => a - b);
    this.chart.setData([
      all,
      all.map((one) => missRatioAt(this.#points, one)),
      all.map((one) => (one === place ? asked : null)),
    ]);
    const memory = `${factor(2 ** place)}, ${bytes(this.#bytesAt(place))}`;
    write(byId("what-if-memory"), memory);
    this.slider.setAttribute("aria-valuetext", `${memory}: ${percent(asked)} of reads miss`);
    const words = byId("what-if-words");
    const now = missRatioAt(this.#points, 0);
    words.replaceChildren(...inWords(place, asked, now, this.#readsPerSecond()));
    this.host.setAttribute("aria-label", `Miss-ratio curve. ${words.textContent}`);
  }

  #readsPerSecond() {
    return this.history.window?.figures.gets ?? 0;
  }
}

/** The estimate at a place of the curve, straight between the two points around it. */
function missRatioAt(points, place) {
  const after = points.findIndex((point) => point.place >= place);
  if (after < 0) return points.at(-1).miss_ratio;
  if (after === 0) return points[0].miss_ratio;
  const [low, high] = [points[after - 1], points[after]];
  const part = (place - low.place) / (high.place - low.place);
  return low.miss_ratio + (high.miss_ratio - low.miss_ratio) * part;
}

/** One plain sentence, and what it means at the present load. */
function inWords(place, asked, now, reads_per_s) {
  const strong = (text) => element("strong", {}, text);
  if (place === 0) {
    return ["With the memory it has, about ", strong(percent(asked)), " of reads miss."];
  }
  const sentence = [
    `With ${factor(2 ** place)} the memory, about `,
    strong(percent(asked)),
    ` of reads would miss instead of ${percent(now)}. `,
  ];
  const change = now - asked;
  if (Math.abs(change) < NOTABLE) {
    return [...sentence, place > 0 ? "More memory would hardly help." : "Less would do as well."];
  }
  const each_second = `${count(Math.abs(change) * reads_per_s)} ${change > 0 ? "fewer" : "more"}`;
  return reads_per_s >= 1 ? [...sentence, `At this load: ${each_second} misses/s.`] : sentence;
}
