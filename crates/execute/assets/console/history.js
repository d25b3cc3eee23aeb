// History: the last 15 minutes, one row of figures for each answer of the server, and 24 hours by
// the minute.
// What panels show outside of charts is that of the last minute (`window`).
//
// The page begins with what the server remembers (`load`). From then on it goes on by itself: the
// server counts from its start, and the figures here are differences between two answers. Where
// answers are missing stands one row of nulls, so that lines break there.

import { difference, quantile, sum } from "./histogram.js";

/** What requests come over. */
export const PROTOCOLS = ["memcached", "resp", "http"];
/** Why reads miss, as the server names it. */
export const REASONS = ["never_stored", "expired", "evicted", "deleted"];
/** What memory holds. */
export const STATES = ["live", "dead", "index", "overhead", "buffer", "free"];

/** Time for which there is a row for each second. */
export const SECONDS_SPAN_S = 15 * 60;
/** What each rate, ratio and percentile outside the charts covers: the last minute. */
const WINDOW_S = 60;
/** Answers further apart than this leave a gap. */
const GAP_S = 4;
/** Answers closer to each other than this make no row: rates would be those of a moment. */
const STEP_MS_MIN = 500;
/** Minutes further apart than this leave a gap. */
const MINUTE_GAP_S = 150;
const QUANTILES = { p50: 0.5, p99: 0.99, p999: 0.999 };

/** How much a count rose each second; null after a restart, or where there is no earlier count. */
function rise(now, before, elapsed_s) {
  const more = now - before;
  return more >= 0 && elapsed_s > 0 ? more / elapsed_s : null;
}

/** Memory by state; free is what is left of the limit, whether it was ever touched or not. */
export function memoryByState(memory) {
  const { live_bytes, dead_bytes, index_bytes, overhead_bytes, buffer_bytes, limit_bytes } = memory;
  const used_bytes = live_bytes + dead_bytes + index_bytes + overhead_bytes;
  const free_bytes = Math.max(0, limit_bytes - used_bytes);
  return { live_bytes, dead_bytes, index_bytes, overhead_bytes, buffer_bytes, free_bytes };
}

/** A share, or null where nothing was counted. */
const shareOf = (part, whole) => (whole > 0 ? part / whole : null);

/** The miss-ratio curve of the reads between two answers; empty without reads. */
function curveBetween(status, before) {
  const points = status.curve.map((point, index) => {
    const earlier = before.curve[index];
    const gets = point.gets - earlier.gets;
    const misses = Math.min(gets, Math.max(0, point.misses - earlier.misses));
    return { ...point, gets, misses, miss_ratio: shareOf(misses, gets) };
  });
  return points.filter((point) => point.miss_ratio !== null);
}

/** The figures that follow from an answer and the one before it. */
function derive(status, before) {
  const elapsed_s = (status.server.uptime_ms - before.server.uptime_ms) / 1000;
  const figures = { time: status.server.now_unix_ms / 1000 };
  const put = (name, now, then) => {
    figures[name] = rise(now, then, elapsed_s);
  };
  figures.requests = 0;
  for (const protocol of PROTOCOLS) {
    put(protocol, status.requests[protocol], before.requests[protocol]);
    figures.requests += figures[protocol];
    const latency = difference(status.latency_us[protocol], before.latency_us[protocol]);
    for (const [name, q] of Object.entries(QUANTILES)) {
      figures[`${protocol}_${name}`] = quantile(latency, q);
    }
  }
  const latencies = PROTOCOLS.map((name) =>
    difference(status.latency_us[name], before.latency_us[name]),
  );
  for (const [name, q] of Object.entries(QUANTILES)) {
    figures[name] = quantile(sum(latencies), q);
  }
  for (const reason of REASONS) {
    put(`missed_${reason}`, status.misses[reason], before.misses[reason]);
  }
  for (const name of ["gets", "hits", "misses", "sets"]) {
    put(name, status.operations[name], before.operations[name]);
  }
  figures.hit_ratio = shareOf(figures.hits, figures.hits + figures.misses);
  for (const name of ["stored", "evicted", "expired"]) {
    put(name, status.items[name], before.items[name]);
  }
  Object.assign(figures, memoryByState(status.memory));
  figures.items = status.items.now;
  figures.connections = 0;
  for (const protocol of PROTOCOLS) {
    figures[`${protocol}_clients`] = status.connections.now[protocol];
    figures.connections += status.connections.now[protocol];
  }
  const loads = busyShares(status, before, elapsed_s).filter((share) => share !== null);
  figures.busiest = loads.length > 0 ? Math.max(...loads) : null;
  return figures;
}

/** For each thread the share of time that it was busy between two answers, or null. */
export function busyShares(status, before, elapsed_s) {
  return status.threads.map((thread) => {
    const earlier = before?.threads.find((one) => one.name === thread.name);
    if (!earlier || !(elapsed_s > 0)) return null;
    const share = (thread.busy_us - earlier.busy_us) / 1e6 / elapsed_s;
    return Math.min(1, Math.max(0, share));
  });
}

/** Rows of figures as columns. */
class Rows {
  #columns = new Map();
  #gap_s;

  constructor(gap_s) {
    this.#gap_s = gap_s;
  }

  last(name) {
    return this.#columns.get(name)?.at(-1) ?? null;
  }

  column(name) {
    return this.#columns.get(name) ?? [];
  }

  /** Adds a row; charts want time to rise, so where the clock was set back they begin anew. */
  push(figures) {
    if (figures.time <= this.last("time")) this.#columns.clear();
    const rows = this.column("time").length;
    for (const [name, value] of Object.entries(figures)) {
      if (!this.#columns.has(name)) this.#columns.set(name, Array(rows).fill(null));
      this.#columns.get(name).push(value);
    }
  }

  pushGap() {
    const end = this.last("time");
    if (end === null) return;
    const gap = Object.fromEntries([...this.#columns.keys()].map((name) => [name, null]));
    this.push({ ...gap, time: end + 0.5 });
  }

  /** Takes rows of the server in place of all that are not older than those. */
  take(columns) {
    const { time_unix_ms: times_ms, ...others } = columns;
    if (times_ms.length === 0) return;
    this.#keep((time) => time < times_ms[0] / 1000);
    const names = Object.keys(others);
    times_ms.forEach((time_ms, row) => {
      const time = time_ms / 1000;
      if (time - (this.last("time") ?? time) > this.#gap_s) this.pushGap();
      this.push({ time, ...Object.fromEntries(names.map((name) => [name, others[name][row]])) });
    });
  }

  /** Drops what is older than that. */
  trim(oldest) {
    if (this.column("time")[0] < oldest) this.#keep((time) => time >= oldest);
  }

  #keep(isKept) {
    const kept = this.column("time").map(isKept);
    for (const [name, column] of this.#columns) {
      this.#columns.set(
        name,
        column.filter((_, row) => kept[row]),
      );
    }
  }
}

/** What is known of the server: rows of seconds and of minutes, and the last whole answers. */
export class History {
  #seconds = new Rows(GAP_S);
  #minutes = new Rows(MINUTE_GAP_S);
  #answers = [];

  /** The last answer, or null. */
  get status() {
    return this.#answers.at(-1) ?? null;
  }

  /** Whether there is something that the server remembers and this does not. */
  misses(status) {
    const before = this.status;
    if (!before || isAnotherRun(status, before)) return true;
    return status.server.uptime_ms - before.server.uptime_ms > GAP_S * 1000;
  }

  /** The last value of a column, or null. */
  last(name) {
    return this.#seconds.last(name);
  }

  /** A column, oldest value first; for a longer time than 15 minutes that of minutes. */
  column(name, span_s = SECONDS_SPAN_S) {
    return (span_s > SECONDS_SPAN_S ? this.#minutes : this.#seconds).column(name);
  }

  /** Takes what the server remembers by the second. */
  load({ columns, earlier }) {
    this.#seconds.take(columns);
    this.#answers = earlier;
  }

  /** Takes what it remembers by the minute. */
  loadMinutes({ columns }) {
    this.#minutes = new Rows(MINUTE_GAP_S);
    this.#minutes.take(columns);
  }

  /** Takes an answer of the server. */
  add(status) {
    const before = this.status;
    if (before && isAnotherRun(status, before)) {
      this.#answers = [];
      this.#seconds.pushGap();
    } else if (before) {
      const silent_ms = status.server.uptime_ms - before.server.uptime_ms;
      if (silent_ms > GAP_S * 1000) this.#seconds.pushGap();
      if (silent_ms >= STEP_MS_MIN) this.#push(derive(status, before));
    }
    this.#answers.push(status);
    const oldest_ms = status.server.uptime_ms - WINDOW_S * 1000;
    this.#answers = this.#answers.filter((one) => one.server.uptime_ms >= oldest_ms);
  }

  /**
   * The last minute: the answer it began with, how long ago that was, the figures between that
   * answer and the last one, and their miss-ratio curve; null before the second answer. Panels
   * take all that is not a chart from here, so that no two of them contradict each other.
   */
  get window() {
    const now = this.status;
    const [before] = this.#answers;
    if (!now || before === now) return null;
    return {
      before,
      elapsed_s: (now.server.uptime_ms - before.server.uptime_ms) / 1000,
      figures: derive(now, before),
      curve: curveBetween(now, before),
    };
  }

  #push(figures) {
    this.#seconds.push(figures);
    this.#seconds.trim(figures.time - SECONDS_SPAN_S);
  }
}

/** Whether the server was started anew between two answers. */
function isAnotherRun(status, before) {
  return (
    status.server.pid !== before.server.pid ||
    status.server.uptime_ms < before.server.uptime_ms
  );
}
