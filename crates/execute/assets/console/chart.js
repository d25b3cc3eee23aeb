// Charts: uPlot with the page's colours, legends as text, and one moment pointed at in all of them.
//
// A chart over time shows the last minutes up to the newest answer. Its legend has the newest
// values, or those of the moment under the pointer, in every chart at once.

import { element, swatch, write } from "./dom.js";
import { clock, percentShort, shortClock, UNKNOWN } from "./format.js";

const SYNC_KEY = "time";
const FONT_PX = 11;
const X_AXIS_PX = 30;
const Y_AXIS_PX = 58;
/** Room at the right for one half of the last label. */
const RIGHT_PX = 28;
const charts = new Set();
let events = [];
const probe = element("span", { hidden: "" });

/** A token's colour as the canvas wants it. */
function paint(token, alpha = 1) {
  if (!probe.isConnected) document.body.append(probe);
  probe.style.color = `color-mix(in srgb, var(--${token}) ${alpha * 100}%, transparent)`;
  return getComputedStyle(probe).color;
}

/** Draws everything anew, in the colours that hold from now on. */
export function repaint() {
  for (const chart of charts) chart.redraw(false, true);
}

/** Marks what happened in all charts over time. */
export function showEvents(newest) {
  events = newest;
}

/** A thin line at each moment at which something happened. */
function drawEvents(chart) {
  const { left, top, width, height } = chart.bbox;
  const { min, max } = chart.scales.x;
  chart.ctx.save();
  chart.ctx.strokeStyle = paint("event");
  chart.ctx.lineWidth = devicePixelRatio;
  chart.ctx.setLineDash([4 * devicePixelRatio, 3 * devicePixelRatio]);
  for (const { unix_ms } of events) {
    const time = unix_ms / 1000;
    if (!(time >= min && time <= max)) continue;
    const x = left + ((time - min) / (max - min)) * width;
    chart.ctx.beginPath();
    chart.ctx.moveTo(x, top);
    chart.ctx.lineTo(x, top + height);
    chart.ctx.stroke();
  }
  chart.ctx.restore();
}

/** An axis in the page's type and colours. */
export function axis(options) {
  return {
    font: `${FONT_PX}px ${getComputedStyle(document.documentElement).fontFamily}`,
    stroke: () => paint("ink-faint"),
    grid: { stroke: () => paint("grid"), width: 1 },
    ticks: { show: false },
    size: X_AXIS_PX,
    ...options,
  };
}

/** The axis at the left, with values as `format` writes them. */
export function valueAxis(format, options = {}) {
  const values = (_, splits) => splits.map((value) => (value === null ? "" : format(value)));
  return axis({ size: Y_AXIS_PX, gap: 8, space: 36, values, ...options });
}

/** Steps of an axis of bytes: powers of two. */
export const BYTE_STEPS = Array.from({ length: 48 }, (_, power) => 2 ** power);

/** A line or an area in the colour of a token. */
export function line({ token, fill = 0, width = 1.5, paths }) {
  return {
    stroke: () => paint(token),
    fill: fill > 0 ? () => paint(token, fill) : undefined,
    width,
    paths,
    points: { show: false },
  };
}

/** A chart that fills `host` at any size. */
export function draw(host, options, data) {
  const size = () => ({ width: host.clientWidth, height: host.clientHeight });
  const chart = new uPlot(
    { legend: { show: false }, padding: [8, RIGHT_PX, 0, 0], ...size(), ...options },
    data,
    host,
  );
  charts.add(chart);
  new ResizeObserver(() => {
    const { width, height } = size();
    const changed = width !== chart.width || height !== chart.height;
    if (changed && width > 0) chart.setSize({ width, height });
  }).observe(host);
  host.setAttribute("role", "img");
  return chart;
}

/** A legend: a swatch, a name and a value for each entry. */
export function legend(list, entries, shape) {
  const outputs = entries.map(({ token, label }) => {
    const output = element("output", {}, UNKNOWN);
    list.append(element("li", {}, swatch(token, shape), label, output));
    return output;
  });
  return (texts) => texts.forEach((text, index) => write(outputs[index], text));
}

/** The highest value of the axis: never so low that noise fills the chart. */
const fromZero = (least) => (_, __, most) => [0, Math.max(least, (most ?? 0) * 1.1)];

/** Where an axis of shares begins: close below the lowest value, so that changes are seen. */
const SHARE_STARTS = [0.99, 0.95, 0.9, 0.8, 0.5, 0];
const shareRange = (_, least) => [SHARE_STARTS.find((start) => start < (least ?? 0)) ?? 0, 1];

/** Powers of ten around all values. */
function decades(_, least, most) {
  const low = least > 0 ? least : 1;
  const high = most > low ? most : low * 10;
  return [10 ** Math.floor(Math.log10(low)), 10 ** Math.ceil(Math.log10(high))];
}

/**
 * A chart over time. `series`: name of the column, label, token. `scale`: "zero", "share", "log" or
 * "stacked", where each area, of bytes, stands on those before it.
 */
export class TimeChart {
  #history;
  #series;
  #format;
  #stacked;
  #span_s = 300;
  #chart;
  #showValues;
  #host;
  #columns;

  constructor(panel, { history, series, format, scale = "zero", least = 1, label }) {
    this.#history = history;
    this.#series = series;
    this.#format = format;
    this.#stacked = scale === "stacked";
    this.#host = panel.querySelector(".chart");
    this.label = label;
    this.#columns = series.map((one) => one.column);
    const shape = this.#stacked ? "square" : "line";
    this.#showValues = legend(panel.querySelector(".legend"), series, shape);
    const y = {
      zero: { range: fromZero(least) },
      stacked: { range: (_, __, most) => [0, Math.max(least, most ?? 0)] },
      share: { range: shareRange },
      log: { distr: 3, range: decades },
    }[scale];
    // What stands on others is drawn before them, so that they cover its lower part.
    const order = this.#stacked ? [...series].reverse() : series;
    this.#chart = draw(
      this.#host,
      {
        scales: { x: { range: () => this.#range() }, y },
        cursor: {
          y: false,
          drag: { x: false, y: false },
          sync: { key: SYNC_KEY },
          points: { size: 7, width: 2, fill: () => paint("surface") },
        },
        axes: [
          axis({ space: 76, values: (_, splits) => splits.map(shortClock) }),
          valueAxis(
            scale === "share" ? percentShort : format,
            this.#stacked ? { incrs: BYTE_STEPS } : {},
          ),
        ],
        series: [{}, ...order.map((one) => line(this.#look(one)))],
        hooks: { setCursor: [() => this.#writeLegend()], draw: [drawEvents] },
      },
      [[], ...series.map(() => [])],
    );
  }

  /** How much time it shows. */
  set span_s(seconds) {
    this.#span_s = seconds;
    this.update();
  }

  /** Shows these columns of the history in place of the first ones. */
  set columns(columns) {
    this.#columns = columns;
    this.update();
  }

  /** Draws what the history holds now. */
  update() {
    const columns = this.#columns.map((name) => this.#column(name));
    const drawn = this.#stacked ? stack(columns).reverse() : columns;
    this.#chart.setData([this.#column("time"), ...drawn]);
    this.#writeLegend();
  }

  #column(name) {
    return this.#history.column(name, this.#span_s);
  }

  #look(one) {
    return this.#stacked
      ? { token: one.token, width: 0, fill: 1 }
      : { token: one.token, fill: one.fill ?? 0 };
  }

  #range() {
    const end = this.#history.last("time") ?? Date.now() / 1000;
    return [end - this.#span_s, end];
  }

  #writeLegend() {
    if (!this.#chart) return;
    const times = this.#column("time");
    const index = this.#chart.cursor.idx ?? times.length - 1;
    const values = this.#columns.map((name) => this.#column(name)[index]);
    this.#showValues(values.map(this.#format));
    const shown = this.#series.map((one, at) => `${one.label} ${this.#format(values[at])}`);
    const moment = times[index] ? ` At ${clock(times[index])}: ${shown.join(", ")}.` : "";
    this.#host.setAttribute("aria-label", `${this.label}.${moment}`);
  }
}

/** Columns in which each value has those of the columns before it added. */
function stack(columns) {
  const sums = [];
  for (const column of columns) {
    const below = sums.at(-1);
    sums.push(column.map((value, row) => (value === null ? null : value + (below?.[row] ?? 0))));
  }
  return sums;
}
