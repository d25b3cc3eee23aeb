// Runs in-process caches for Go and Node.js through the edge cases of docs/near.md.
//
// Each line of the output is a library with its version, a case and what happened, with tabs between them.

const fs = require("node:fs");
const path = require("node:path");
const { LRUCache } = require("lru-cache");
const NodeCache = require("node-cache");

const NEVER = Infinity;

const pass = (ms) => new Promise((done) => setTimeout(done, ms));

/** lru-cache. A TTL of zero means none there. */
class Lru {
  static package = "lru-cache";
  constructor({ entries, weight }) {
    const bound = weight
      ? { maxSize: weight, sizeCalculation: (value) => value.length }
      : { max: entries };
    const fetchMethod = (key, stale, { signal, context }) => context(signal);
    this.inner = new LRUCache({ ...bound, fetchMethod });
  }
  get = (key) => this.inner.get(key);
  set = (key, value, ttl_ms) =>
    this.inner.set(key, value, ttl_ms === NEVER ? undefined : { ttl: ttl_ms });
  remove = (key) => this.inner.delete(key);
  clear = () => this.inner.clear();
  load = (key, load, signal) => this.inner.fetch(key, { context: load, signal });
}

/** node-cache. It counts TTLs in seconds, and zero means none. */
class Node {
  static package = "node-cache";
  constructor({ entries }) {
    this.inner = new NodeCache({ maxKeys: entries });
  }
  get = (key) => this.inner.get(key);
  set = (key, value, ttl_ms) =>
    this.inner.set(key, value, ttl_ms === NEVER ? undefined : ttl_ms / 1000);
  remove = (key) => this.inner.del(key);
  clear = () => this.inner.flushAll();
}

const stored = (cache, key) => cache.get(key) ?? "nothing";

const settled = (promise) => promise.then(String, (error) => `error: ${error.message}`);

async function duringLoad(cache, change) {
  if (!cache.load) return "no loader";
  let release;
  const value = new Promise((done) => (release = done));
  const caller = settled(cache.load(1, () => value));
  await pass(50);
  change(cache);
  release("loaded");
  const got = await caller;
  return `stays: ${stored(cache, 1)}; the loader's caller gets: ${got}`;
}

async function untimedOverTimed(Cache) {
  const cache = new Cache({ entries: 100 });
  cache.set(1, "timed", 300);
  cache.set(1, "untimed", NEVER);
  await pass(600);
  return `after the old deadline: ${stored(cache, 1)}`;
}

async function twoCallers(Cache, cancelsFirst) {
  const cache = new Cache({ entries: 100 });
  if (!cache.load) return "no loader";
  let count = 0;
  let release;
  const value = new Promise((done) => (release = done));
  const load = (signal) => {
    count += 1;
    return new Promise((done, failed) => {
      signal.addEventListener("abort", () => failed(signal.reason));
      value.then(done);
    });
  };
  const cancel = new AbortController();
  const one = settled(cache.load(1, load, cancelsFirst ? cancel.signal : undefined));
  const two = settled(cache.load(1, load, cancelsFirst ? undefined : cancel.signal));
  await pass(100);
  cancel.abort();
  const [gone, other] = cancelsFirst ? [one, two] : [two, one];
  const early = await Promise.race([gone.then(() => true), pass(300).then(() => false)]);
  release("loaded");
  const returns = early ? "at once" : "at the end of the load";
  return `the cancelled one returns ${returns} with ${await gone}; the other gets: ${await other}; ${count} loads`;
}

function held(cache, from, to) {
  let count = 0;
  for (let key = from; key < to; key += 1) count += cache.get(key) === undefined ? 0 : 1;
  return count;
}

function heavierThanLimit(Cache) {
  if (Cache !== Lru) return "no weights";
  const cache = new Cache({ weight: 100 });
  for (let key = 0; key < 9; key += 1) cache.set(key, "x".repeat(10), NEVER);
  const before = held(cache, 0, 9);
  cache.set(1, "y".repeat(1000), NEVER);
  const at = cache.get(1);
  const others = held(cache, 0, 9) - (at === undefined ? 0 : 1);
  const told = at === undefined ? "nothing" : `a value of ${at.length}`;
  return `${before} of 9 stored; then at the key: ${told}; of the other 8: ${others}`;
}

async function fullOfExpired(Cache, wait_ms) {
  const cache = new Cache({ entries: 100 });
  for (let key = 0; key < 100; key += 1) cache.set(key, "old", 200);
  await pass(200 + wait_ms);
  let refused = "";
  for (let key = 1000; key < 1100; key += 1) {
    try {
      cache.set(key, "new", NEVER);
    } catch (error) {
      refused = ` (${error.message})`;
    }
  }
  return `expired for ${wait_ms / 1000} s: ${held(cache, 1000, 1100)} of 100${refused}`;
}

async function allExpired(Cache) {
  const waits = [100, 2_300, 11_000];
  return (await Promise.all(waits.map((wait) => fullOfExpired(Cache, wait)))).join("; ");
}

async function moreLoadsThanSpace(Cache) {
  const cache = new Cache({ entries: 2 });
  if (!cache.load) return "no loader";
  let count = 0;
  let release;
  const all = new Promise((done) => (release = done));
  const loads = [];
  for (let key = 0; key < 32; key += 1) {
    const load = () => {
      count += 1;
      return all.then(() => `v${key}`);
    };
    loads.push(settled(cache.load(key, load)));
  }
  await pass(50);
  release();
  const values = await Promise.all(loads);
  const right = values.filter((value, key) => value === `v${key}`).length;
  const wrong = [...new Set(values.filter((value, key) => value !== `v${key}`))];
  const others = wrong.length ? ` (the others: ${wrong.join(", ")})` : "";
  return `${right} right values${others}, ${count} loads; stay: ${held(cache, 0, 32)}`;
}

async function clearAndDeadline(Cache) {
  const cache = new Cache({ entries: 100 });
  cache.set(1, "old", 300);
  cache.clear();
  cache.set(1, "new", NEVER);
  await pass(600);
  return `after the old deadline: ${stored(cache, 1)}`;
}

async function lifetime(Cache, ttl_ms) {
  const cache = new Cache({ entries: 100 });
  try {
    cache.set(1, "v", ttl_ms);
  } catch (error) {
    return `error: ${error.message}`;
  }
  const begin_ms = performance.now();
  let last_ms = -1;
  for (;;) {
    const asked_ms = performance.now();
    if (cache.get(1) === undefined) break;
    last_ms = asked_ms - begin_ms;
    if (last_ms > 3_000) return "has no deadline";
    await new Promise(setImmediate);
  }
  if (last_ms < 0 && ttl_ms === 0) return "not returned";
  // Both look at a clock of milliseconds, and one of them not each time.
  return last_ms <= ttl_ms + 20 ? "exact" : `lives ${(last_ms / 1000).toFixed(1)} s`;
}

async function shortTtls(Cache) {
  const parts = [];
  for (const ttl_ms of [0, 1, 300]) {
    parts.push(`${ttl_ms}ms: ${await lifetime(Cache, ttl_ms)}`);
  }
  return parts.join("; ");
}

const loadedWhile = (change) => (Cache) => duringLoad(new Cache({ entries: 100 }), change);

const CASES = {
  "write during a load": loadedWhile((cache) => cache.set(1, "written", NEVER)),
  "remove during a load": loadedWhile((cache) => cache.remove(1)),
  "clear during a load": loadedWhile((cache) => cache.clear()),
  "untimed write over a timed value": untimedOverTimed,
  "the loading caller is cancelled": (Cache) => twoCallers(Cache, true),
  "a waiting caller is cancelled": (Cache) => twoCallers(Cache, false),
  "overwrite heavier than the limit": heavierThanLimit,
  "full of expired entries": allExpired,
  "more loads than space": moreLoadsThanSpace,
  "clear and an old deadline": clearAndDeadline,
  "short TTLs": shortTtls,
};

async function main() {
  for (const Cache of [Lru, Node]) {
    const folder = path.join(__dirname, "node_modules", Cache.package, "package.json");
    const { version } = JSON.parse(fs.readFileSync(folder, "utf8"));
    for (const [name, run] of Object.entries(CASES)) {
      console.log([`${Cache.package} ${version}`, name, await run(Cache)].join("\t"));
    }
  }
}

main();
