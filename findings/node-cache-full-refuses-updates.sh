#!/usr/bin/env bash
# node-cache 5.1.2 (npm), with maxKeys.
# One would guess that a full cache refuses new keys only, as the manual says ("if a new item is set and the cache is
# full, an error is thrown"), and that an expired entry does not count.
# set() compares the number of keys with maxKeys before it looks at the key. In a full cache it throws for a key that is
# there as well, and the old value stays and is returned. An expired entry counts until it is read or until the
# periodic check removes it, by default every 600 s: a cache of 100 entries that have all expired refuses everything.
# For somebody who runs a cache: once it has been full, it serves old data for the rest of their TTL, and then misses
# for up to ten minutes. An application that logs the error of set() and goes on (a cache is optional) does not notice,
# and the statistics show hits. Call del() before each set() that is an update, make checkperiod as short as the TTL,
# and count the errors.
# Exit status: 0 as stated here, 1 it behaves otherwise, 77 it could not be run (says why).
set -u
T=$(mktemp -d /tmp/finding.XXXXXX)
trap 'cd /; rm -rf "$T"' EXIT
skip() { echo "SKIPPED: $*"; exit 77; }
for tool in node npm; do command -v "$tool" >/dev/null || skip "$tool is not installed"; done
cd "$T" || exit 77
echo '{"private": true, "type": "module"}' > package.json
npm install --prefer-offline --silent --no-audit --no-fund --ignore-scripts node-cache@5.1.2 >err 2>&1 \
    || skip "npm: $(tail -1 err)"
cat > try.mjs <<'P'
import NodeCache from 'node-cache';
const attempt = (cache, key) => {
  try {
    cache.set(key, 'new');
    return 'stored';
  } catch (error) {
    return error.message;
  }
};
const full = (stdTTL) => {
  const cache = new NodeCache({ maxKeys: 100, stdTTL });
  for (let key = 0; key < 100; key += 1) cache.set(key, 'old');
  return cache;
};
const live = full(0);
console.log(`update in a full cache: ${attempt(live, 7)}; get returns: ${live.get(7)}`);
live.del(7);
console.log(`after del: ${attempt(live, 7)}; get returns: ${live.get(7)}`);
const expired = full(0.1);
await new Promise((done) => setTimeout(done, 2000));
console.log(`insert where all 100 have expired: ${attempt(expired, 'more')}; keys: ${expired.getStats().keys}`);
expired.get(7);
console.log(`after a read of one of them: ${attempt(expired, 'more')}`);
P
OUT=$(timeout 120 node try.mjs 2>err) || skip "it ends with $(tail -1 err)"
echo "node-cache 5.1.2"
echo "$OUT"
[ "$OUT" = "update in a full cache: Cache max keys amount exceeded; get returns: old
after del: stored; get returns: new
insert where all 100 have expired: Cache max keys amount exceeded; keys: 100
after a read of one of them: stored" ] && exit 0
exit 1
