// What the tests of the console share: servers of their own, a browser, traffic, and waiting.
'use strict';

const assert = require('node:assert/strict');
const { spawn } = require('node:child_process');
const { once } = require('node:events');
const net = require('node:net');
const readline = require('node:readline');
const { setTimeout: sleep } = require('node:timers/promises');
const { chromium } = require('playwright-core');
const { createClient } = require('redis');
const { WAIT_MS_MAX, waitUntil } = require('./waiting.cjs');

const PATIENCE_MS = 60_000;
const CHROMIUM = process.env.CHROMIUM ?? '/usr/bin/chromium';
// Chromium asks nobody for anything but the page.
const CHROMIUM_FLAGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

/** One server process, on free ports unless flags name others. */
class Server {
  static async start(flags = []) {
    const server = new Server();
    const defaults = { '--memory': '16MiB', '--threads': '2' };
    for (const name of ['--memcached', '--resp', '--http']) defaults[name] = '127.0.0.1:0';
    const missing = Object.entries(defaults).filter(([name]) => !flags.includes(name));
    server.process = spawn(process.env.CELLAR, [...missing.flat(), ...flags], {
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    const lines = readline.createInterface({ input: server.process.stderr });
    const log = [];
    for await (const line of lines) {
      log.push(line);
      if (!line.includes('cellar ready')) continue;
      const address = (name) => new RegExp(` ${name}=(\\S+)`).exec(line)[1];
      server.resp = address('resp');
      server.memcached = address('memcached');
      server.http = address('http');
      server.url = `http://${server.http}/`;
      server.process.stderr.resume();
      return server;
    }
    throw new Error(`the server did not start:\n${log.join('\n')}`);
  }

  async stop() {
    if (this.process.exitCode !== null || this.process.signalCode !== null) return;
    this.process.kill('SIGKILL');
    await once(this.process, 'exit');
  }

  client(options = {}) {
    // Its own limit may be over while a thousand commands wait on a busy machine.
    const commandOptions = { timeout: WAIT_MS_MAX };
    const client = createClient({ url: `redis://${this.resp}`, commandOptions, ...options });
    client.on('error', () => {});
    return client.connect();
  }
}

/** Requests over all protocols, with hits and every kind of miss, until stopped. */
class Traffic {
  #ends = false;
  #stored = 0;

  /** Begins when the memory is full, so that items are evicted. */
  static async start(server) {
    const traffic = new Traffic();
    traffic.client = await server.client();
    for (let rounds = 0; rounds < 25; rounds += 1) await traffic.#store(1000);
    traffic.done = traffic.#run(server);
    return traffic;
  }

  async #store(count) {
    const value = 'x'.repeat(1000);
    const numbers = Array.from({ length: count }, () => (this.#stored += 1));
    const expiration = (i) => ({ expiration: { type: 'EX', value: 300 + (i % 30) } });
    await Promise.all(numbers.map((i) => this.client.set(`stored:${i}`, value, expiration(i))));
    const soon = { expiration: { type: 'EX', value: 40 } };
    await this.client.set(`soon:${this.#stored}`, value, soon);
  }

  async #run(server) {
    const socket = net.connect(Number(server.memcached.split(':')[1]), '127.0.0.1');
    await once(socket, 'connect');
    socket.resume();
    const long = { expiration: { type: 'EX', value: 900 } };
    await this.client.set('hot:key', 'the hottest of all', long);
    for (let round = 1; !this.#ends; round += 1) {
      await this.#store(50);
      const some = Array.from({ length: 100 }, (_, i) => round * 100 + i);
      const over = { expiration: { type: 'PX', value: 1 } };
      await Promise.all(some.map((i) => this.client.set(`over:${i}`, 'x', over)));
      await Promise.all(some.map((i) => this.client.set(`deleted:${i}`, 'x')));
      await Promise.all(some.map((i) => this.client.del(`deleted:${i}`)));
      const names = some.flatMap((i) => [
        `over:${i}`,
        `deleted:${i}`,
        `never:${i}`,
        // One that was stored just now, and one that has made room since.
        `stored:${this.#stored - (i % 100)}`,
        `stored:${this.#stored - 20_000 - (i % 100)}`,
        ...Array(5).fill('hot:key'),
      ]);
      await Promise.all(names.map((name) => this.client.get(name)));
      socket.write('get hot:key\r\n'.repeat(50));
      await (await fetch(`${server.url}v1/cache/hot%3Akey`)).text();
      // paced: the load leaves the browser some processor time.
      await sleep(10);
    }
    socket.destroy();
  }

  async stop() {
    this.#ends = true;
    await this.done;
    await this.client.close();
  }
}

/** Chromium; each page has a context of its own and notes what it should not do. */
class Browser {
  static async start(flags = []) {
    const browser = new Browser();
    browser.chromium = await chromium.launch({
      executablePath: CHROMIUM,
      args: [...CHROMIUM_FLAGS, ...flags],
    });
    return browser;
  }

  /** Opens a page for `use(page)`; fails it for errors in the console and foreign requests. */
  async with(server, options, use) {
    const { mayFail = false, prepare = () => {}, ...context } = options;
    const own = await this.chromium.newContext({ timezoneId: 'UTC', ...context });
    own.setDefaultTimeout(PATIENCE_MS);
    const page = await own.newPage();
    const problems = [];
    page.on('pageerror', (error) => problems.push(String(error)));
    page.on('console', (message) => {
      const isExpected = mayFail && message.text().startsWith('Failed to load resource');
      if (['error', 'warning'].includes(message.type()) && !isExpected) {
        problems.push(message.text());
      }
    });
    own.on('request', (request) => {
      if (new URL(request.url()).host !== server.http) problems.push(`asks ${request.url()}`);
    });
    try {
      await prepare(page);
      await page.goto(server.url);
      await use(page);
      assert.deepEqual(problems, []);
    } finally {
      await own.close();
    }
  }

  close() {
    return this.chromium.close();
  }
}

/** Waits until the page is in a state: live, gone, token, refused. */
const waitForState = (page, state) => page.waitForSelector(`html[data-state=${state}]`);

/** Waits until the text of an element fits, and returns it. */
async function waitForText(page, selector, pattern) {
  const fits = ([where, source]) =>
    new RegExp(source, 'u').test(document.querySelector(where)?.innerText ?? '');
  await page
    .waitForFunction(fits, [selector, pattern.source], { timeout: PATIENCE_MS })
    .catch(async () => {
      const seen = await page.evaluate(
        (where) => document.querySelector(where)?.innerText,
        selector,
      );
      assert.fail(`${selector} does not become ${pattern}, it is:\n${seen}`);
    });
  return page.locator(selector).first().innerText();
}

module.exports = { Browser, Server, Traffic, waitForState, waitForText, waitUntil };
