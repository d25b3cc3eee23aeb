// Key figures: the row at the top, each of the last minute, with that minute as a small line.
//
// Rates, ratios and percentiles are those of the whole minute; levels are those of now.

import { byId, colour, element, each, write } from "../dom.js";
import { bytes, count, micros, percent, rate } from "../format.js";
import { memoryByState, PROTOCOLS, STATES } from "../history.js";

const SVG = "http://www.w3.org/2000/svg";
const TREND_VALUES = 60;
/**
 * What each figure shows: value, note, the column of its line and the line's colour. `minute` has
 * the figures of the last minute, and nothing before the second answer.
 */
const FIGURES = {
  requests: ({ minute }) => ({
    value: count(minute.requests),
    note: `${rate(minute.gets)} gets, ${rate(minute.sets)} sets`,
    trend: "requests",
    token: "memcached",
  }),
  hits: ({ minute }) => ({
    value: percent(minute.hit_ratio),
    note: minute.gets === 0 ? "no reads" : `${rate(minute.misses)} misses`,
    trend: "hit_ratio",
    token: "good",
  }),
  latency: ({ minute }) => ({
    value: micros(minute.p99),
    note: `p50 ${micros(minute.p50)}, p99.9 ${micros(minute.p999)}`,
    trend: "p99",
    token: "http",
  }),
  items: ({ status, minute }) => ({
    value: count(status.items.now),
    note: `${rate(minute.evicted)} evicted, ${rate(minute.expired)} expired`,
    trend: "items",
    token: "live",
  }),
  connections: ({ status, minute }) => ({
    value: count(PROTOCOLS.reduce((sum, name) => sum + status.connections.now[name], 0)),
    note: `busiest thread ${percent(minute.busiest)} busy`,
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
    const minute = this.history.window?.figures ?? {};
    for (const [name, show] of Object.entries(FIGURES)) {
      const { value, note, trend, token } = show({ status, minute });
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
    const runs = runsOf(values, (value, index) => {
      const x = TREND_VALUES - values.length + index;
      return [x, (19 - (most > 0 ? value / most : 0) * 17).toFixed(2)];
    });
    const along = (run) => run.map((point) => point.join()).join("L");
    const ends = (run) => [run[0][0], run.at(-1)[0]];
    line.setAttribute("d", runs.map((run) => `M${along(run)}`).join(""));
    const filled = (run) => `M${ends(run)[0]},20L${along(run)}L${ends(run)[1]},20Z`;
    area.setAttribute("d", runs.map(filled).join(""));
  };
}

/** The points of values, in runs without an unknown value: no reads are no hit ratio of zero. */
export function runsOf(values, point) {
  const runs = [[]];
  values.forEach((value, index) => {
    if (value === null) runs.push([]);
    else runs.at(-1).push(point(value, index));
  });
  return runs.filter((run) => run.length > 0);
}
