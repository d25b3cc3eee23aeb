#!/usr/bin/env bash
# lru-cache 11.5.3 (npm), fetch() with a fetchMethod, and a limit on entries (max).
# One would guess that a load takes space when it has a value to store, and that a load that fails, or finds nothing,
# leaves the other entries alone.
# A load takes an entry when it begins: it evicts the least recently used value. A load that fails gives its entry
# back, and the evicted value is lost. 100 concurrent loads that fail leave a cache of 100 values empty, and so do 100
# loads that find nothing. One after the other they cost one value in all. If more loads run than the cache has
# entries, the oldest loads are evicted by the newest, and their callers get an error though the source has answered.
# For somebody who runs a cache: in the first moments of an outage the requests that miss empty the cache of the values
# that would have carried it, and a scan of unknown keys does the same at any time. The hit rate falls, and the dispose
# callback says "evict", as for an ordinary insert. Load with a map of promises beside the cache, and set() the result.
# Exit status: 0 as stated here, 1 it behaves otherwise, 77 it could not be run (says why).
set -u
T=$(mktemp -d /tmp/finding.XXXXXX)
trap 'cd /; rm -rf "$T"' EXIT
skip() { echo "SKIPPED: $*"; exit 77; }
for tool in node npm; do command -v "$tool" >/dev/null || skip "$tool is not installed"; done
cd "$T" || exit 77
echo '{"private": true, "type": "module"}' > package.json
npm install --prefer-offline --silent --no-audit --no-fund --ignore-scripts lru-cache@11.5.3 >err 2>&1 \
    || skip "npm: $(tail -1 err)"
cat > try.mjs <<'P'
import { LRUCache } from 'lru-cache';
const pause = () => new Promise((done) => setTimeout(done, 50));
const fails = async () => { await pause(); throw new Error('down'); };
const finds_nothing = async () => { await pause(); };
const filled = (fetchMethod) => {
  const reasons = new Set();
  const cache = new LRUCache({ max: 100, fetchMethod, dispose: (value, key, why) => value && reasons.add(why) });
  for (let key = 0; key < 100; key += 1) cache.set(key, 'value');
  return { cache, reasons };
};
const left = (cache) => {
  let count = 0;
  for (let key = 0; key < 100; key += 1) count += cache.peek(key) === undefined ? 0 : 1;
  return count;
};
for (const load of [fails, finds_nothing]) {
  const { cache, reasons } = filled(load);
  await Promise.allSettled(Array.from({ length: 100 }, (_, more) => cache.fetch(1000 + more)));
  console.log(`${load.name}, 100 at once: ${left(cache)} of 100 values left, disposed by ${[...reasons]}`);
}
const { cache } = filled(fails);
for (let more = 0; more < 20; more += 1) await cache.fetch(1000 + more).catch(() => {});
console.log(`fails, 20 one after the other: ${left(cache)} of 100 values left`);
const small = new LRUCache({ max: 2, fetchMethod: async (key) => { await pause(); return `value ${key}`; } });
const loads = await Promise.allSettled(Array.from({ length: 32 }, (_, key) => small.fetch(key)));
const errors = loads.filter((load) => load.reason?.message === 'evicted').length;
console.log(`32 loads that succeed, space for 2: ${errors} callers get an error`);
P
OUT=$(timeout 120 node try.mjs 2>err) || skip "it ends with $(tail -1 err)"
echo "lru-cache 11.5.3"
echo "$OUT"
[ "$OUT" = "fails, 100 at once: 0 of 100 values left, disposed by evict
finds_nothing, 100 at once: 0 of 100 values left, disposed by evict
fails, 20 one after the other: 99 of 100 values left
32 loads that succeed, space for 2: 30 callers get an error" ] && exit 0
exit 1
