#!/usr/bin/env bash
# undici 7.30.2 (npm), its cache interceptor with stale-while-revalidate and stale-if-error.
# One would guess that the two directives add up: the cache returns the stale response at once and renews it in the
# background, and while the origin fails, it still has the stale one for the time that stale-if-error gives.
# stale-while-revalidate takes that protection away. If the background request gets a 503 with "Cache-Control: no-store"
# or with Set-Cookie, the cache removes the good response. The first caller gets the stale 200, and all later ones get
# the 503. With stale-if-error alone all of them get the stale 200, and so they do after a 503 without these headers.
# For somebody who runs a cache: error pages of proxies and frameworks usually have these headers. One failed request
# removes the entry, so an outage reaches the users at once, the popular URLs first, and a test with a bare 503 passes.
# Let the origin send stale-if-error only, or remove no-store and Set-Cookie from its error responses.
# Exit status: 0 as stated here, 1 it behaves otherwise, 77 it could not be run (says why).
set -u
T=$(mktemp -d /tmp/finding.XXXXXX)
trap 'cd /; rm -rf "$T"' EXIT
skip() { echo "SKIPPED: $*"; exit 77; }
for tool in node npm; do command -v "$tool" >/dev/null || skip "$tool is not installed"; done
cd "$T" || exit 77
echo '{"private": true}' > package.json
npm install --prefer-offline --silent --no-audit --no-fund --ignore-scripts undici@7.30.2 >err 2>&1 \
    || skip "npm: $(tail -1 err)"
cat > try.js <<'J'
const { createServer } = require('node:http');
const { setTimeout: sleep } = require('node:timers/promises');
const { Agent, interceptors, request } = require('undici');

async function attempt(directives, errorHeaders) {
  let fails = false;
  const origin = createServer((_, response) => {
    if (fails) response.writeHead(503, errorHeaders).end();
    else response.writeHead(200, { 'Cache-Control': `max-age=1, ${directives}`, ETag: '"1"' }).end('good');
  });
  await new Promise((listening) => origin.listen(0, '127.0.0.1', listening));
  const agent = new Agent().compose(interceptors.cache());
  const get = async () => {
    const response = await request(`http://127.0.0.1:${origin.address().port}/`, { dispatcher: agent });
    await response.body.dump();
    return response.statusCode;
  };
  await get();
  fails = true;
  await sleep(1500);
  const statuses = [];
  for (let caller = 0; caller < 4; caller++) {
    statuses.push(await get());
    await sleep(500);
  }
  origin.closeAllConnections();
  origin.close();
  return `${directives}; 503 with ${JSON.stringify(errorHeaders)}: ${statuses.join(' ')}`;
}

async function main() {
  const attempts = [];
  for (const directives of ['stale-if-error=3600', 'stale-while-revalidate=3600, stale-if-error=3600']) {
    for (const headers of [{}, { 'Cache-Control': 'no-store' }, { 'Set-Cookie': 'id=1' }]) {
      attempts.push(attempt(directives, headers));
    }
  }
  for (const line of await Promise.all(attempts)) console.log(line);
  process.exit(0);
}
main();
J
OUT=$(timeout 100 node try.js 2>err) || skip "it ends with $(tail -1 err)"
echo "undici $(node -p 'require("undici/package.json").version'), Node.js $(node --version)"
echo "$OUT"
[ "$OUT" = 'stale-if-error=3600; 503 with {}: 200 200 200 200
stale-if-error=3600; 503 with {"Cache-Control":"no-store"}: 200 200 200 200
stale-if-error=3600; 503 with {"Set-Cookie":"id=1"}: 200 200 200 200
stale-while-revalidate=3600, stale-if-error=3600; 503 with {}: 200 200 200 200
stale-while-revalidate=3600, stale-if-error=3600; 503 with {"Cache-Control":"no-store"}: 200 503 503 503
stale-while-revalidate=3600, stale-if-error=3600; 503 with {"Set-Cookie":"id=1"}: 200 503 503 503' ] && exit 0
exit 1
