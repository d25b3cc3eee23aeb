// Waiting for an event, for all tests in node.
'use strict';

const assert = require('node:assert/strict');
const { setTimeout } = require('node:timers/promises');

/** Ends what would wait for ever: a busy machine may take long for what is right. */
const WAIT_MS_MAX = 120_000;
const LOOK_MS = 10;

/** Waits until `holds()` and returns its value; fails by an error that names `what`. */
async function waitUntil(holds, what) {
  const end = performance.now() + WAIT_MS_MAX;
  for (;;) {
    // It is looked at once more after the end.
    const isLate = performance.now() > end;
    const value = await holds();
    if (value) return value;
    assert.ok(!isLate, `after ${WAIT_MS_MAX} ms this is still not so: ${what}`);
    await setTimeout(LOOK_MS);
  }
}

module.exports = { WAIT_MS_MAX, waitUntil };
