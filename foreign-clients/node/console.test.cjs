// The console in headless Chromium; foreign-clients/run says with CELLAR which binary to start.
'use strict';

const assert = require('node:assert/strict');
const { spawnSync } = require('node:child_process');
const fs = require('node:fs/promises');
const os = require('node:os');
const path = require('node:path');
const { setTimeout: sleep } = require('node:timers/promises');
const { after, before, describe, test } = require('node:test');
const {
  Browser,
  Server,
  Traffic,
  waitForState,
  waitForText,
  waitUntil,
} = require('./console_support.cjs');

const PANELS = [
  'throughput',
  'latency',
  'hits',
  'memory',
  'what-if',
  'expiry',
  'hot-keys',
  'connections',
  'look-up',
  'compression',
  'events',
  'settings',
];
const POSITIVE = /[1-9]/;

let browser;
before(async () => {
  browser = await Browser.start();
});
after(() => browser.close());

/** The numbers of some cells, once all of them are known. */
async function waitForNumbers(page, selector) {
  const known = (where) => {
    const texts = [...document.querySelectorAll(where)].map((node) => node.innerText);
    return texts.length > 0 && texts.every((text) => /[1-9]/.test(text)) && texts;
  };
  return (await page.waitForFunction(known, selector)).jsonValue();
}

/** Opens the look-up of a key in the list of the hottest. */
async function lookUpHotKey(page, shown) {
  const link = page.locator('#hot-keys .key-link').getByText(shown, { exact: true });
  await page.mouse.move(0, 0);
  await link.waitFor();
  // Rows change places until the pointer is over one of them.
  await page.hover('#hot-keys tbody');
  await link.click();
}

/** Whether the canvas of a panel has pixels in the colour of a token. */
function isDrawn(page, panel, token) {
  return page.waitForFunction(
    ([id, name]) => {
      const probe = document.createElement('span');
      probe.style.color = `var(--${name})`;
      document.body.append(probe);
      const wanted = getComputedStyle(probe).color.match(/\d+/g).slice(0, 3).map(Number);
      probe.remove();
      const canvas = document.querySelector(`#${id} canvas`);
      const { width, height } = canvas;
      const copy = new OffscreenCanvas(width, height).getContext('2d');
      copy.drawImage(canvas, 0, 0);
      const { data } = copy.getImageData(0, 0, width, height);
      for (let at = 0; at < data.length; at += 4) {
        const isNear = wanted.every((value, part) => Math.abs(data[at + part] - value) < 12);
        if (isNear && data[at + 3] > 150) return true;
      }
      return false;
    },
    [panel, token],
  );
}

/** Panels, and elements in them, that are wider than there is room for. */
const tooWide = (page) =>
  page.evaluate(() => {
    const root = document.documentElement;
    const found = root.scrollWidth > root.clientWidth ? [`page ${root.scrollWidth}`] : [];
    for (const node of document.querySelectorAll('.panel, .figure, .panel > *, header > *')) {
      const right = node.getBoundingClientRect().right;
      const isCut = node.scrollWidth > node.clientWidth + 1 && !node.matches('.visually-hidden');
      if (right > root.clientWidth || (isCut && node.clientWidth > 0)) {
        found.push(`${node.closest('[id]')?.id} ${node.tagName}.${node.className}`);
      }
    }
    return found;
  });

/** Texts whose contrast with what is behind them is below WCAG's AA. */
const tooFaint = (page) =>
  page.evaluate(() => {
    const parse = (text) => {
      const numbers = text.match(/[\d.]+/g).map(Number);
      const scale = text.startsWith('color(') ? 255 : 1;
      const [r, g, b, a = 1] = numbers;
      return [r * scale, g * scale, b * scale, a];
    };
    const luminance = (rgb) => {
      const [r, g, b] = rgb.map((part) => {
        const value = part / 255;
        return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
      });
      return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const behind = (node) => {
      for (let at = node; at; at = at.parentElement) {
        const [r, g, b, a] = parse(getComputedStyle(at).backgroundColor);
        if (a === 1) return [r, g, b];
      }
      return [255, 255, 255];
    };
    const found = new Set();
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const node = walker.currentNode.parentElement;
      if (!walker.currentNode.data.trim() || !node.checkVisibility()) continue;
      if (node.closest('noscript, .visually-hidden')) continue;
      const front = luminance(parse(getComputedStyle(node).color).slice(0, 3));
      const back = luminance(behind(node));
      const contrast = (Math.max(front, back) + 0.05) / (Math.min(front, back) + 0.05);
      if (contrast < 4.5) found.add(`${node.className || node.tagName} ${contrast.toFixed(2)}`);
    }
    return [...found];
  });

// Each test has a page of its own, and mostly waits for the next answer.
describe('under load', { concurrency: 4 }, () => {
  let server;
  let traffic;
  before(async () => {
    server = await Server.start(['--console-write']);
    traffic = await Traffic.start(server);
  });
  after(async () => {
    await traffic?.stop();
    await server?.stop();
  });
  const open = (options, use) =>
    browser.with(server, options, async (page) => {
      await waitForState(page, 'live');
      await use(page);
    });

  test('the key figures', () =>
    open({}, async (page) => {
      const values = await waitForNumbers(page, '.figure-value');
      assert.equal(values.length, 6);
      assert.match(values[1], /%$/u);
      assert.match(values[2], /[µm]s$/u);
      await waitForText(page, '#figure-memory .figure-note', /of 16\sMiB/u);
      await waitForText(page, '#server-facts', /version \d+\.\d+\.\d+ · up /u);
    }));

  test('throughput and latency of each protocol', () =>
    open({}, async (page) => {
      const rates = await waitForNumbers(page, '#throughput .legend output');
      assert.equal(rates.length, 3);
      for (const token of ['memcached', 'resp']) await isDrawn(page, 'throughput', token);
      const cells = await waitForNumbers(page, '#latency tbody td');
      assert.equal(cells.length, 12);
      assert.match(cells[0], /[µm]?s$/u);
      assert.ok(await page.isChecked('#latency-protocol [value=resp]'), 'the busiest is shown');
      await page.check('#latency-protocol [value=http]');
      await waitForNumbers(page, '#latency .legend output');
      await isDrawn(page, 'latency', 'bad');
    }));

  test('hits, and every reason why reads miss', () =>
    open({}, async (page) => {
      await waitForText(page, '#hits .legend output', /\d\s%/u);
      const rates = await waitForNumbers(page, '#hits tbody tr td:nth-child(2)');
      assert.equal(rates.length, 4);
      await isDrawn(page, 'hits', 'good');
    }));

  test('memory by state', () =>
    open({}, async (page) => {
      await waitForText(page, '#memory-note', /16\sMiB allowed, .* resident/u);
      const legend = await waitForText(page, '#memory .legend', /live\s+[1-9]/u);
      for (const state of ['reclaimable', 'index', 'overhead', 'buffers', 'free']) {
        assert.match(legend, new RegExp(`${state}\\s+\\d`));
      }
      await isDrawn(page, 'memory', 'live');
      await waitForText(page, '#memory-words', /reclaimable/u);
    }));

  test('what other memory would miss, asked with the keyboard', () =>
    open({}, async (page) => {
      await waitForText(page, '#what-if-words', /With 2\s× the memory, about .*% of reads/u);
      await page.focus('#what-if-factor');
      await page.keyboard.press('End');
      await waitForText(page, '#what-if-memory', /4\s×, 64\sMiB/u);
      await waitForText(page, '#what-if-words', /With 4\s× the memory/u);
      await page.keyboard.press('Home');
      await waitForText(page, '#what-if-memory', /¼\s×, 4\sMiB/u);
      await isDrawn(page, 'what-if', 'accent');
    }));

  test('what leaves in the next minute, hour and day', () =>
    open({}, async (page) => {
      await waitForText(page, '#expiry .legend', /about [1-9].* items, .*in the next minute/u);
      await isDrawn(page, 'expiry', 'expired');
      for (const span of ['hour', 'day']) {
        await page.check(`#expiry-span [value=${span}]`);
        await waitForText(page, '#expiry-facts', new RegExp(`In the next ${span}\\s+[1-9]`, 'u'));
      }
    }));

  test('the hottest keys, one of which opens its look-up', () =>
    open({}, async (page) => {
      await waitForText(page, '#hot-keys tbody tr', /hot:key\s+0\s+\d/u);
      await page.click('#hot-keys .key-link >> nth=0');
      await waitForText(page, '#look-up-result', /Kind\s+string[^]*the hottest of all/u);
      await waitForText(page, '#look-up-result .facts', /Expires in\s+1[0-9]\smin/u);
    }));

  test('connections and threads', () =>
    open({}, async (page) => {
      const counts = await waitForNumbers(page, '#connections .legend output');
      assert.equal(counts.length, 3);
      await page.waitForFunction(
        () => document.querySelectorAll('#connections tbody tr').length === 2,
      );
      await waitForText(page, '#connections tbody', /%[^]*[1-9].*\/s/u);
      await waitForText(page, '#connections-note', /[1-9].* accepted, 0 refused/u);
    }));

  test('settings, and those whose name contains a word', () =>
    open({}, async (page) => {
      await waitForText(page, '#settings', /memory\s+16MiB/u);
      await page.fill('#settings-filter', 'console');
      await page.waitForFunction(() => document.querySelectorAll('.setting-list dt').length === 1);
      await waitForText(page, '.setting-list', /console-write\s+on/u);
      await page.fill('#settings-filter', 'no such setting');
      await waitForText(page, '#settings-none', /No setting/u);
    }));

  for (const [width, height] of [
    [360, 740],
    [390, 844],
    [1024, 768],
    [1440, 900],
  ]) {
    test(`at ${width} pixels everything has room and can be read, light and dark`, () =>
      open({ viewport: { width, height }, reducedMotion: 'reduce' }, async (page) => {
        await waitForNumbers(page, '.figure-value');
        await waitForNumbers(page, '#hits tbody tr td:nth-child(2)');
        assert.deepEqual(await tooWide(page), []);
        assert.deepEqual(await tooFaint(page), []);
        await page.emulateMedia({ colorScheme: 'dark' });
        assert.deepEqual(await tooFaint(page), []);
      }));
  }

  test('the moment under the pointer is read in all charts', () =>
    open({}, async (page) => {
      await waitForNumbers(page, '#throughput .legend output');
      await page.hover('#throughput .u-over', { position: { x: 1, y: 20 } });
      // The oldest moment shown: nothing was known then, or it is the first one known.
      const label = await page.getAttribute('#throughput .chart', 'aria-label');
      assert.match(label, /^Requests per second by protocol\. At \d\d:\d\d:\d\d: memcached/u);
    }));
});

describe('a page that opens', () => {
  let server;
  before(async () => {
    server = await Server.start();
  });
  after(() => server?.stop());

  test('shows at once what was before, and what happened', async () => {
    const traffic = await Traffic.start(server);
    const remembered = async (step) =>
      (await fetch(`${server.url}v1/console/history?step=${step}`)).json();
    // Traffic for some seconds, which nobody looks at, and then none.
    // A slow machine takes longer until something has to leave, and is missed often enough.
    const isBusy = async () => {
      const { resp, missed_evicted: missed } = (await remembered('1s')).columns;
      const misses = missed.reduce((sum, rate) => sum + (rate ?? 0), 0);
      return resp.filter((rate) => rate > 100).length >= 4 && misses > 200;
    };
    await waitUntil(isBusy, 'there is enough traffic');
    await traffic.stop();
    const client = await server.client();
    await client.flushDb();
    await client.configSet('timeout', '77');
    await client.close();
    const flushed = async () =>
      (await remembered('1s')).events.some(({ kind }) => kind === 'flush');
    await waitUntil(flushed, 'the flush is remembered');
    // However late what is remembered comes: it then tells of more than the answer before it.
    const prepare = (page) =>
      page.route('**/history?step=1s', async (route) => {
        // paced: the delay is what is tested.
        await sleep(2500);
        await route.continue();
      });
    await browser.with(server, { prepare }, async (page) => {
      // The first thing that is drawn has it: not the second answer, which comes a second later.
      await page.waitForFunction(
        // A busy machine may add an event loop that stood still.
        () => document.querySelectorAll('#event-list li').length >= 3,
      );
      const first = await page.evaluate(() => ({
        events: document.querySelector('#event-list').innerText,
        misses: document.querySelector('#hits tbody').innerText,
        latency: document.querySelector('#latency tbody').innerText,
        figures: [...document.querySelectorAll('.figure-value')].map((node) => node.innerText),
        peak: document.querySelector('#throughput .chart').getAttribute('aria-label'),
      }));
      for (const words of [/changed: timeout=77/u, /Flushed/u, /started, version/u]) {
        assert.match(first.events, words);
      }
      assert.match(first.misses, /evicted\s+[1-9]/u);
      assert.match(first.latency, /[µm]s/u);
      assert.ok(first.figures.every((text) => text !== '–'), first.figures.join(' '));
      await isDrawn(page, 'throughput', 'resp');
      await isDrawn(page, 'throughput', 'event');
      await isDrawn(page, 'hits', 'good');
      const asked = page.waitForResponse((one) => one.url().endsWith('history?step=1m'));
      await page.check('#span [value="86400"]');
      assert.equal((await (await asked).json()).step_ms, 60_000);
    });
  });
});

describe('the figures of a page', () => {
  let server;
  before(async () => {
    server = await Server.start();
  });
  after(() => server?.stop());

  /** What the server counted by then: reads of which `hits` were found, and how long they took. */
  function countedAt(status, uptime_ms, { gets, hits, bins }) {
    const copy = structuredClone(status);
    copy.server.uptime_ms = uptime_ms;
    copy.operations = { ...copy.operations, gets, hits, misses: gets - hits, sets: 0 };
    for (const name of ['memcached', 'http']) {
      copy.requests[name] = 0;
      copy.latency_us[name].counts.fill(0);
    }
    copy.requests.resp = gets;
    copy.latency_us.resp.counts = copy.latency_us.resp.counts.map((_, bin) => bins[bin] ?? 0);
    copy.curve = copy.curve.map((point) => ({ ...point, gets, misses: gets - hits, miss_ratio: 0.5 }));
    copy.memory.limit_bytes = 200 * 2 ** 20;
    copy.curve.forEach((point) => (point.memory_bytes = point.factor * 256 * 2 ** 20));
    return copy;
  }

  /** A page whose server answers with these counts of before, and then with those of now. */
  async function answer(page, earlier, now) {
    const status = await (await fetch(`${server.url}v1/console/status`)).json();
    const remembered = await (await fetch(`${server.url}v1/console/history?step=1s`)).json();
    remembered.earlier = earlier.map(([at_ms, counts]) => countedAt(status, at_ms, counts));
    for (const name of Object.keys(remembered.columns)) remembered.columns[name] = [];
    await page.route('**/history?step=1s', (route) => route.fulfill({ json: remembered }));
    let at_ms = 100_000;
    await page.route('**/v1/console/status', (route) => {
      at_ms += 1;
      const answer = countedAt(status, at_ms, now);
      answer.server.now_unix_ms = status.server.now_unix_ms + at_ms;
      return route.fulfill({ json: answer });
    });
  }
  const textOf = (page, where) => page.locator(where).first().innerText();

  test('are all of the last minute, though the load of its parts differs', () => {
    // Of a million reads before the minute nearly all hit. In the minute 6,000 reads take 10 us
    // and hit, and 100 in its last second take seconds and miss.
    const before = { gets: 1_000_000, hits: 990_000, bins: [1_000_000] };
    const later = { gets: 1_006_000, hits: 996_000, bins: [1_006_000] };
    const now = { gets: 1_006_100, hits: 996_000, bins: [...later.bins, ...Array(12).fill(0), 100] };
    const prepare = (page) => answer(page, [[40_100, before], [99_000, later]], now);
    return browser.with(server, { prepare }, async (page) => {
      await waitForText(page, '#figure-requests .figure-value', /^102$/u);
      await waitForText(page, '#figure-requests .figure-note', /^102\/s gets, 0\/s sets$/u);
      await waitForText(page, '#figure-hits .figure-value', /^98\.4\s%$/u);
      await waitForText(page, '#what-if-words', /about 1\.6\s% of reads would miss instead of 1\.6/u);
      await waitForText(page, '#what-if-memory', /2\s×, 512\sMiB/u);
      // Percentiles come from one histogram, so they cannot be out of order.
      const [p50, p99, p999] = await page.evaluate(() =>
        [...document.querySelectorAll('#latency tbody tr:nth-child(2) td')].map((td) => td.innerText),
      );
      assert.equal(await textOf(page, '#figure-latency .figure-value'), p99);
      assert.equal(await textOf(page, '#figure-latency .figure-note'), `p50 ${p50}, p99.9 ${p999}`);
      const busiest = await textOf(page, '#figure-connections .figure-note');
      assert.match(busiest, /^busiest thread 0\s% busy$/u);
    });
  });

  test('without reads there is neither a hit ratio nor a miss ratio', () => {
    const same = { gets: 1_000_000, hits: 860_000, bins: [1_000_000] };
    const prepare = (page) => answer(page, [[40_100, same]], same);
    return browser.with(server, { prepare }, async (page) => {
      await waitForText(page, '#figure-hits .figure-note', /^no reads$/u);
      assert.equal(await textOf(page, '#figure-hits .figure-value'), '–');
      await waitForText(page, '#what-if .empty', /No reads in the last minute/u);
      const lines = await page.getAttribute('#figure-hits .sparkline .line', 'd');
      assert.equal(lines, '');
    });
  });
});

describe('an empty server', () => {
  let server;
  before(async () => {
    server = await Server.start();
  });
  after(() => server?.stop());

  test('says in each panel that there is nothing yet, and how to begin', () =>
    browser.with(server, {}, async (page) => {
      await waitForState(page, 'live');
      const port = server.resp.split(':')[1];
      const hint = new RegExp(`No traffic yet[^]*-p ${port} `, 'u');
      await waitForText(page, '#throughput .empty', hint);
      await waitForText(page, '#hits .empty', /No reads yet/u);
      await waitForText(page, '#what-if .empty', /No reads in the last minute/u);
      await waitForText(page, '#expiry .empty', /Nothing is stored/u);
      await waitForText(page, '#hot-keys .empty', /No key stands out/u);
      await waitForText(page, '#compression .empty', /Compression is off/u);
      await waitForText(page, '#figure-hits .figure-value', /^–$/u);
      await waitForText(page, '#figure-items .figure-value', /^0$/u);
      await waitForText(page, '#memory-words', /is free\. Nothing is reclaimable/u);
      await waitForText(page, '#settings', /memory\s+16MiB/u);
      assert.deepEqual(await tooWide(page), []);
      assert.deepEqual(await tooFaint(page), []);
    }));

  test('shows what comes as soon as it comes', () =>
    browser.with(server, {}, async (page) => {
      await waitForText(page, '#throughput .empty', /No traffic yet/u);
      const client = await server.client();
      await client.set('first', 'value');
      await waitForText(page, '#throughput .legend', /RESP\s+/u);
      await waitForText(page, '#figure-items .figure-value', /^1$/u);
      await client.close();
    }));

  test('a key is looked up in its database; one that is not there is told', () =>
    browser.with(server, {}, async (page) => {
      const client = await server.client({ database: 3 });
      await client.hSet('a hash', { field: 'its value', other: '2' });
      await client.set('bytes', Buffer.from([0, 255, 7]));
      const form = '#look-up-form';
      await page.fill(`${form} [name=key]`, 'a hash');
      await page.fill(`${form} [name=database]`, '3');
      await page.press(`${form} [name=key]`, 'Enter');
      await waitForText(page, '#look-up-result', /hash[^]*field: its value\nother: 2/u);
      await waitForText(page, '#look-up-result', /Expires in\s+no TTL/u);
      await page.fill(`${form} [name=key]`, 'bytes');
      await page.press(`${form} [name=key]`, 'Enter');
      await waitForText(page, '#look-up-result', /base64[^]*AP8H/u);
      await page.fill(`${form} [name=database]`, '0');
      await page.press(`${form} [name=key]`, 'Enter');
      await waitForText(page, '#look-up-result', /There is no live item “bytes”/u);
      await client.close();
    }));

  test('without --console-write nothing can be deleted', () =>
    browser.with(server, { mayFail: true }, async (page) => {
      const client = await server.client();
      await client.set('kept', 'value');
      await waitForText(page, '#look-up-note', /Read-only: .*--console-write/u);
      await page.fill('#look-up-form [name=key]', 'kept');
      await page.press('#look-up-form [name=key]', 'Enter');
      await waitForText(page, '#look-up-result', /value/u);
      assert.equal(await page.isVisible('#look-up-result .is-risky'), false);
      const status = await page.evaluate(async () => {
        const response = await fetch('/v1/console/key?key=kept', { method: 'DELETE' });
        return response.status;
      });
      assert.equal(status, 403);
      assert.equal(await client.get('kept'), 'value');
      await client.close();
    }));
});

describe('a server that allows changes', () => {
  let server;
  let client;
  before(async () => {
    server = await Server.start(['--console-write']);
    client = await server.client();
  });
  after(async () => {
    await client?.close();
    await server?.stop();
  });

  test('a key is deleted once that is confirmed', () =>
    browser.with(server, {}, async (page) => {
      await client.set('doomed', 'value');
      await waitForState(page, 'live');
      await page.fill('#look-up-form [name=key]', 'doomed');
      await page.press('#look-up-form [name=key]', 'Enter');
      await page.click('#look-up-result .is-risky');
      await waitForText(page, '#delete-dialog', /doomed \(database 0\)/u);
      await page.keyboard.press('Escape');
      await page.waitForSelector('#delete-dialog:not([open])', { state: 'attached' });
      assert.equal(await client.get('doomed'), 'value');
      await page.click('#look-up-result .is-risky');
      await page.click('#delete-dialog [value=keep]');
      assert.equal(await client.get('doomed'), 'value');
      await page.click('#look-up-result .is-risky');
      await page.click('#delete-dialog [value=delete]');
      await waitForText(page, '#look-up-result', /“doomed” deleted/u);
      assert.equal(await client.get('doomed'), null);
    }));

  test('a key with markup in it is shown as text', () =>
    browser.with(server, {}, async (page) => {
      const key = '<script>window.ran=1</script><img src=x onerror="window.ran=1">';
      const binary = Buffer.from([0x61, 0xff, 0x25, 0x62]);
      await client.set(key, `<b>${key}</b>`);
      await client.set(binary, 'bytes');
      const gets = Array.from({ length: 4000 }, () => [client.get(key), client.get(binary)]);
      await Promise.all(gets.flat());
      await lookUpHotKey(page, key);
      await page.locator('#look-up-result .preview', { hasText: '<b>' }).waitFor();
      assert.equal(await page.innerText('#look-up-result .preview'), `<b>${key}</b>`);
      await page.click('#look-up-result .is-risky');
      assert.equal(await page.innerText('#delete-key'), `${key} (database 0)`);
      await page.click('#delete-dialog [value=keep]');
      assert.equal(await page.evaluate(() => window.ran), undefined);
      assert.equal(await page.locator('main script, main img').count(), 0);
      // A key that is no text is found by its bytes.
      await lookUpHotKey(page, 'a%FF%b');
      await page.locator('#look-up-result .preview', { hasText: 'bytes' }).waitFor();
    }));

  test('keys that are hostile to a page are shown as what they are', () =>
    browser.with(server, {}, async (page) => {
      // What a key is, and how it is shown.
      const keys = [
        [`"quoted" 'twice' \`thrice\` & "><script>window.ran=1</script>`],
        ['<svg onload=window.ran=1>', '<svg onload=window.ran=1>'],
        ['bell \x07 escape \x1b[2J line\r\nend', 'bell %07 escape %1B[2J line%0D%0Aend'],
        ['right \u202e)7 esabatad( tfel', 'right %E2%80%AE)7 esabatad( tfel'],
        ['isolated \u2066 \u200f', 'isolated %E2%81%A6 %E2%80%8F'],
        ['zero \0 byte', 'zero %00 byte'],
        ['\u{1f600} \u{1f469}\u200d\u{1f52c} e\u0301 \u05d0'],
        [Buffer.from([0xc3, 0x28, 0xf0, 0x9f, 0x98, 0x20, 0xed, 0xa0, 0x80]), '%C3(%F0%9F%98 %ED%A0%80'],
      ].map(([key, shown = key]) => ({ key: Buffer.from(key), shown }));
      for (const { key, shown } of keys) await client.set(key, `value of ${shown}`);
      const gets = Array.from({ length: 2000 }, () => keys.map(({ key }) => client.get(key)));
      await Promise.all(gets.flat());
      const dialog = page.locator('#delete-dialog');
      for (const { shown } of keys) {
        await lookUpHotKey(page, shown);
        const preview = page.locator('#look-up-result .preview');
        await preview.getByText(`value of ${shown}`, { exact: true }).waitFor();
        assert.equal(await page.textContent('#look-up-result .mono'), shown);
        await page.click('#look-up-result .is-risky');
        assert.equal(await page.textContent('#delete-key'), `${shown} (database 0)`);
        await dialog.locator('[value=keep]').click();
      }
      await lookUpHotKey(page, keys[3].shown);
      await page.click('#look-up-result .is-risky');
      await dialog.locator('[value=delete]').click();
      await waitForText(page, '#look-up-result', /“right %E2%80%AE.* deleted\./u);
      assert.equal(await client.get(keys[3].key), null);
      assert.equal(await page.evaluate(() => window.ran), undefined);
      assert.equal(await page.locator('main script, main img, main [onload]').count(), 0);
    }));
});

test('a server that goes away is told of, and shown again when it is back', async () => {
  let server = await Server.start();
  const flags = ['--http', server.http];
  try {
    await browser.with(server, { mayFail: true }, async (page) => {
      await waitForText(page, '#figure-connections .figure-value', POSITIVE);
      await server.stop();
      await waitForState(page, 'gone');
      await waitForText(page, '#banner', /No answer from the server since \d.*Next try in \d+ s/u);
      await waitForText(page, '#status', /No answer/u);
      await page.waitForFunction(
        () => Number(getComputedStyle(document.querySelector('main')).opacity) < 0.7,
      );
      // What was known last stays.
      assert.match(await page.innerText('#figure-connections .figure-value'), POSITIVE);
      server = await Server.start(flags);
      await waitForState(page, 'live');
      assert.equal(await page.isVisible('#banner'), false);
      await waitForText(page, '#server-facts', /up \d+\ss/u);
      await server.stop();
      await waitForState(page, 'gone');
      server = await Server.start(flags);
      // It may have tried again by itself meanwhile, and then the button is hidden.
      await page.$eval('#banner-button', (button) => button.click());
      await waitForState(page, 'live');
    });
  } finally {
    await server.stop();
  }
});

test('a user and a password are asked for, and kept until the tab is closed', async () => {
  const folder = await fs.mkdtemp(path.join(os.tmpdir(), 'cellar-users-'));
  const file = path.join(folder, 'users.toml');
  const hashing = spawnSync(process.env.CELLAR, ['hash-password'], { input: 'pässword' });
  const hash = String(hashing.stdout).trim();
  const row = `[[user]]\nname = "ann"\nrole = "read"\npasswords = ["${hash}"]\n`;
  await fs.writeFile(file, row, { mode: 0o600 });
  const server = await Server.start(['--users', file]);
  try {
    await browser.with(server, { mayFail: true }, async (page) => {
      await waitForState(page, 'token');
      await page.fill('#user-input', 'ann');
      await page.fill('#token-input', 'wrong');
      await page.keyboard.press('Enter');
      await waitForText(page, '#token-problem', /did not accept this/u);
      await page.fill('#token-input', 'pässword');
      await page.keyboard.press('Enter');
      await waitForState(page, 'live');
      await page.reload();
      await waitForState(page, 'live');
    });
  } finally {
    await server.stop();
    await fs.rm(folder, { recursive: true });
  }
});

test('a token is asked for, and kept until the tab is closed', async () => {
  const server = await Server.start(['--http-token', 's3cret']);
  try {
    await browser.with(server, { mayFail: true }, async (page) => {
      await waitForState(page, 'token');
      await page.fill('#token-input', 'wrong');
      await page.keyboard.press('Enter');
      await waitForText(page, '#token-problem', /did not accept this/u);
      await page.keyboard.press('Escape');
      await page.fill('#token-input', 's3cret');
      await page.keyboard.press('Enter');
      await waitForState(page, 'live');
      assert.equal(await page.isVisible('#token-dialog'), false);
      await page.reload();
      await waitForState(page, 'live');
      await page.fill('#look-up-form [name=key]', 'nothing');
      await page.press('#look-up-form [name=key]', 'Enter');
      await waitForText(page, '#look-up-result', /There is no live item/u);
    });
  } finally {
    await server.stop();
  }
});

describe('the page by itself', () => {
  let server;
  before(async () => {
    server = await Server.start();
  });
  after(() => server?.stop());
  const STATUS = '**/v1/console/status';
  const background = (page) =>
    page.evaluate(() => getComputedStyle(document.body.parentElement).backgroundColor);

  test('follows the system’s colours unless others were chosen', () =>
    browser.with(server, { colorScheme: 'dark' }, async (page) => {
      await waitForState(page, 'live');
      const dark = await background(page);
      await page.check('#theme [value=light]');
      const light = await background(page);
      assert.notEqual(light, dark);
      await page.reload();
      assert.equal(await background(page), light);
      assert.ok(await page.isChecked('#theme [value=light]'));
      await page.check('#theme [value=auto]');
      assert.equal(await background(page), dark);
    }));

  test('asks nothing while nobody sees it', () =>
    browser.with(
      server,
      { prepare: (page) => page.clock.install() },
      async (page) => {
        await waitForState(page, 'live');
        let asked = 0;
        page.on('request', () => (asked += 1));
        const show = (hidden) =>
          page.evaluate((value) => {
            Object.defineProperty(document, 'hidden', { value, configurable: true });
            document.dispatchEvent(new Event('visibilitychange'));
          }, hidden);
        await show(true);
        asked = 0;
        await page.clock.runFor(10_000);
        assert.equal(asked, 0);
        const next = page.waitForResponse(STATUS);
        await show(false);
        await next;
      },
    ));

  test('tells of a server that drains, refuses, or fails', () =>
    browser.with(server, { mayFail: true }, async (page) => {
      await waitForState(page, 'live');
      await page.route(STATUS, async (route) => {
        const response = await route.fetch();
        const status = await response.json();
        status.server.draining = true;
        await route.fulfill({ response, json: status });
      });
      await waitForText(page, '#banner.is-mild', /shutting down/u);
      await page.unroute(STATUS);
      await page.waitForSelector('#banner', { state: 'hidden' });
      await page.route(STATUS, (route) => route.fulfill({ status: 500, body: 'no' }));
      await waitForText(page, '#banner', /It answers with status 500/u);
      await page.unroute(STATUS);
      await page.click('#banner-button');
      await waitForState(page, 'live');
      await page.route(STATUS, (route) => route.fulfill({ status: 403, body: '{}' }));
      await waitForState(page, 'refused');
      await waitForText(page, '#banner', /--http-token/u);
    }));

  test('every control has a name, and can be reached with the keyboard', () =>
    browser.with(server, {}, async (page) => {
      await waitForState(page, 'live');
      const nameless = await page.evaluate(() =>
        [...document.querySelectorAll('input, button')]
          .filter((node) => !node.labels?.[0]?.innerText.trim() && !node.innerText.trim())
          .map((node) => node.outerHTML),
      );
      assert.deepEqual(nameless, []);
      const untitled = await page.evaluate(
        (ids) => ids.filter((id) => !document.getElementById(`${id}-title`)?.innerText),
        PANELS,
      );
      assert.deepEqual(untitled, []);
      const wanted = new Set(['span', 'theme', 'look-up-form', 'settings-filter']);
      for (let presses = 0; presses < 40 && wanted.size > 0; presses += 1) {
        await page.keyboard.press('Tab');
        const ids = await page.evaluate(() => {
          const found = [];
          for (let at = document.activeElement; at; at = at.parentElement) found.push(at.id);
          return found;
        });
        ids.forEach((id) => wanted.delete(id));
      }
      assert.deepEqual([...wanted], []);
    }));
});
