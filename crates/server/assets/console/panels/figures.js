// Key figures: the row at the top, each with its last minute as a small line.

import { byId, colour, element, each, write } from "../dom.js";
import { bytes, count, micros, percent, rate } from "../format.js";
import { memoryByState, STATES } from "../history.js";

const SVG = "http://www.w3.org/2000/svg";
const TREND_VALUES = 60;
/** Figures are means over so many answers, so that they can be read. */
const SMOOTH_VALUES = 3;

/** What each figure shows: value, note, the column of its line and the line's colour. */
const FIGURES = {
  requests: (history) => ({
    value: count(history.mean("requests", SMOOTH_VALUES)),
    note: `${rate(history.last("gets"))} gets, ${rate(history.last("sets"))} sets`,
    trend: "requests",
    token: "memcached",
  }),
  hits: (history) => ({
    value: percent(history.mean("hit_ratio", SMOOTH_VALUES)),
    note: `${rate(history.last("misses"))} misses`,
    trend: "hit_ratio",
    token: "good",
  }),
  latency: (history) => ({
    value: micros(history.mean("p99", SMOOTH_VALUES)),
    note: `p50 ${micros(history.last("p50"))}, p99.9 ${micros(history.last("p999"))}`,
    trend: "p99",
    token: "http",
  }),
  items: (history) => ({
    value: count(history.last("items")),
    note: `${rate(history.last("evicted"))} evicted, ${rate(history.last("expired"))} expired`,
    trend: "items",
    token: "live",
  }),
  connections: (history) => ({
    value: count(history.last("connections")),
    note: `busiest thread ${percent(history.mean("busiest", SMOOTH_VALUES))} busy`,
    trend: "connections",
    token: "index",
  }),
};

/** The row of key figures. */
export class Figures {
  #trends = new Map();

  constructor(history) {
    this.history = history;
    for (const name of Object.keys(FIGURES)) {
      this.#trends.set(name, trendLine(find(name).trend));
    }
    this.bar = element("div", { class: "shares shares-thin", "aria-hidden": "true" });
    find("memory").trend.append(this.bar);
  }

  /** Shows the newest answer. */
  update(status) {
    for (const [name, show] of Object.entries(FIGURES)) {
      const { value, note, trend, token } = show(this.history);
      const place = find(name);
      write(place.value, value);
      write(place.note, note);
      this.#trends.get(name)(this.history.column(trend).slice(-TREND_VALUES), token);
    }
    this.#updateMemory(status.memory);
  }

  #updateMemory(memory) {
    const states = memoryByState(memory);
    const used = memory.limit_bytes - states.free_bytes;
    const place = find("memory");
    write(place.value, percent(used / memory.limit_bytes));
    write(place.note, `${bytes(used)} of ${bytes(memory.limit_bytes)}`);
    each(
      this.bar,
      STATES,
      () => element("span"),
      (span, state) => {
        colour(span, state === "buffer" ? "buffers" : state);
        span.style.flexGrow = String(states[`${state}_bytes`]);
      },
    );
  }
}

function find(name) {
  const figure = byId(`figure-${name}`);
  return {
    value: figure.querySelector(".figure-value"),
    note: figure.querySelector(".figure-note"),
    trend: figure.querySelector(".figure-trend"),
  };
}

/** A small line without axes; the function returned draws values from left to right. */
function trendLine(host) {
  const picture = document.createElementNS(SVG, "svg");
  picture.setAttribute("class", "sparkline");
  picture.setAttribute("viewBox", `0 0 ${TREND_VALUES - 1} 20`);
  picture.setAttribute("preserveAspectRatio", "none");
  picture.setAttribute("aria-hidden", "true");
  const [area, line] = ["area", "line"].map((name) => {
    const path = document.createElementNS(SVG, "path");
    path.setAttribute("class", name);
    picture.append(path);
    return path;
  });
  host.append(picture);
  return (values, token) => {
    colour(picture, token);
    const most = Math.max(0, ...values);
    const place = (value, index) => {
      const x = TREND_VALUES - values.length + index;
      return `${x},${(19 - (most > 0 ? value / most : 0) * 17).toFixed(2)}`;
    };
    const known = values.map((value) => value ?? 0);
    const points = known.map(place).join("L");
    const start = TREND_VALUES - values.length;
    line.setAttribute("d", points && `M${points}`);
    area.setAttribute("d", points && `M${start},20L${points}L${TREND_VALUES - 1},20Z`);
  };
}
