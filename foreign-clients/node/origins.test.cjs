// What a page from elsewhere can do to a Cellar on this machine, in headless Chromium: nothing.
'use strict';

const assert = require('node:assert/strict');
const { once } = require('node:events');
const http = require('node:http');
const { after, before, describe, test } = require('node:test');
const { Browser, Server } = require('./console_support.cjs');

// Names that the browser takes for this machine's, as one of a rebound name does.
const ELSEWHERE = 'elsewhere.test';
const REBOUND = 'rebound.test';
const JSON_TYPE = { 'Content-Type': 'application/json' };

let browser;
before(async () => {
  browser = await Browser.start([`--host-resolver-rules=MAP *.test 127.0.0.1`]);
});
after(() => browser.close());

/** A server of pages that are not Cellar's. */
async function serveAnyPage() {
  const server = http.createServer((request, response) => {
    response.setHeader('Content-Type', 'text/html');
    response.end('<!doctype html><title>any page</title><link rel="icon" href="data:,">');
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return server;
}

/** In the page: what each of some requests comes to, its status and text, or that it fails. */
const ask = (page, requests) =>
  page.evaluate(async (all) => {
    const told = [];
    for (const [url, options] of all) {
      try {
        const response = await fetch(url, options);
        told.push(response.type === 'opaque' ? 'opaque' : `${response.status} ${await response.text()}`);
      } catch {
        told.push('failed');
      }
    }
    return told;
  }, requests);

describe('a page from elsewhere', () => {
  let server;
  let pages;
  let client;
  before(async () => {
    server = await Server.start(['--console-write']);
    client = await server.client();
    pages = await serveAnyPage();
  });
  after(async () => {
    await client?.close();
    await server?.stop();
    pages?.close();
  });

  /** A page of another origin, and what it must leave as it was. */
  async function withPage(host, use) {
    await client.set('k', 'kept');
    const own = await browser.chromium.newContext();
    try {
      const page = await own.newPage();
      await page.goto(`http://${host}:${pages.address().port}/`);
      await use(page);
      assert.equal(await client.get('k'), 'kept');
      assert.deepEqual((await client.keys('*')).sort(), ['k']);
    } finally {
      await own.close();
    }
  }

  const item = (key) => `http://${server.http}/v1/cache/${key}`;

  test('reads no answer and changes nothing by fetch', () =>
    withPage(ELSEWHERE, async (page) => {
      const changes = ['PUT', 'DELETE', 'POST'].flatMap((method) => [
        [item('k'), { method, body: method === 'DELETE' ? undefined : 'x' }],
        [item('new'), { method, body: method === 'DELETE' ? undefined : 'x' }],
      ]);
      const simple = [
        // What needs no question beforehand: a browser sends it, and shows no answer.
        [item('new'), { method: 'POST', body: 'x', mode: 'no-cors' }],
        [`http://${server.http}/v1/cache`, { method: 'POST', body: '{"id":"new"}', mode: 'no-cors' }],
        [`${item('batch/delete')}`, { method: 'POST', body: '{"keys":["k"]}', mode: 'no-cors' }],
        [`${item('new')}?lease=10s`, { mode: 'no-cors' }],
        [item('k'), { mode: 'no-cors' }],
      ];
      const reads = [item('k'), `http://${server.http}/v1/console/status`, `http://${server.http}/metrics`];
      const told = await ask(page, [...changes, ...reads.map((url) => [url, {}]), ...simple]);
      assert.ok(
        told.every((one) => one === 'failed' || one === 'opaque'),
        told.join('\n'),
      );
    }));

  test('changes nothing by forms, pictures, frames and links', () =>
    withPage(ELSEWHERE, async (page) => {
      const answers = new Map();
      page.on('response', (response) => {
        const { pathname, search } = new URL(response.url());
        answers.set(`${response.request().method()} ${pathname}${search}`, response.status());
      });
      await page.evaluate((base) => {
        const add = (tag, attributes) => {
          const made = Object.assign(document.createElement(tag), attributes);
          document.body.append(made);
          return made;
        };
        add('img', { src: `${base}/v1/cache/new?lease=10s` });
        add('script', { src: `${base}/v1/cache/k` });
        add('iframe', { src: `${base}/`, name: 'console' });
        const enctypes = ['text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data'];
        for (const enctype of enctypes) {
          add('iframe', { name: enctype });
          const action = `${base}/v1/cache?${enctype}`;
          const form = add('form', { action, method: 'post', enctype, target: enctype });
          const input = { name: '{"id":"new","content":"', value: '"}' };
          form.append(Object.assign(document.createElement('input'), input));
          form.submit();
        }
        navigator.sendBeacon(`${base}/v1/cache/beacon`, 'x');
      }, `http://${server.http}`);
      const posts = () => [...answers].filter(([line]) => line.startsWith('POST '));
      for (let looks = 0; posts().length < 3 && looks < 500; looks += 1) {
        await page.waitForTimeout(20);
      }
      // What pictures, scripts and beacons are told, the browser keeps from everybody.
      await page.waitForTimeout(200);
      const told = JSON.stringify([...answers]);
      assert.equal(posts().length, 3, told);
      assert.ok(posts().every(([, status]) => status === 403), told);
      // The console is in no frame.
      const element = await page.waitForSelector('iframe[name="console"]');
      const framed = await element.contentFrame();
      assert.equal(framed ? await framed.locator('#hot-keys').count() : 0, 0);
    }));

  test('gets nothing under a name that leads here', () =>
    withPage(ELSEWHERE, async (page) => {
      // As if its own name led to Cellar by now: the same origin, nothing is hidden from it.
      const port = server.http.split(':')[1];
      const answer = await page.goto(`http://${REBOUND}:${port}/`);
      assert.equal(answer.status(), 421);
      const paths = ['/v1/cache/k', '/v1/console/status', '/metrics', '/v1/console/key?key=k'];
      const methods = [{}, { method: 'PUT', body: 'x' }, { method: 'DELETE' }];
      const posts = [
        ['/v1/cache', { method: 'POST', headers: JSON_TYPE, body: '{"id":"k","content":"x"}' }],
        ['/v1/cache/k?lease=10s', { headers: { 'Cache-Lease': 'ask' } }],
      ];
      const all = paths.flatMap((path) => methods.map((options) => [path, options]));
      const told = await ask(page, [...all, ...posts]);
      for (const one of told) assert.match(one, /^421 .*wrong_host/u);
    }));
});
