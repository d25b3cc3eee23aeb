// Cellar through node-redis and ioredis; foreign-clients/run starts the server and passes RESP_PORT.
'use strict';

const assert = require('node:assert/strict');
const { after, before, describe, test } = require('node:test');
const { createClient, WatchError } = require('redis');
const Redis = require('ioredis');
const { waitUntil } = require('./waiting.cjs');

const PORT = Number(process.env.RESP_PORT);

for (const RESP of [2, 3]) {
  describe(`node-redis in RESP${RESP}`, () => {
    const open = (options = {}) =>
      createClient({ socket: { port: PORT, host: '127.0.0.1' }, RESP, database: 1, ...options });
    let client;

    before(async () => {
      client = await open().connect();
      await client.flushAll();
    });
    after(() => client.close());

    test('strings, conditions and deadlines', async () => {
      const expiration = { type: 'EX', value: 36_000 };
      assert.equal(await client.set('key', 'value', { expiration }), 'OK');
      assert.equal(await client.get('key'), 'value');
      assert.equal(await client.set('key', 'other', { condition: 'NX' }), null);
      const seconds = await client.ttl('key');
      // A busy machine may take long until it asks.
      assert.ok(seconds >= 35_000 && seconds <= 36_000, `${seconds} s are left`);
      assert.deepEqual(await client.mGet(['key', 'nothing']), ['value', null]);
      assert.equal(await client.incrBy('n', 42), 42);
      assert.equal(await client.del(['key', 'n', 'nothing']), 2);
    });

    test('commands sent together are answered in order', async () => {
      const numbers = Array.from({ length: 1000 }, (_, i) => String(i));
      await Promise.all(numbers.map((i) => client.set(`k${i}`, i)));
      assert.deepEqual(await Promise.all(numbers.map((i) => client.get(`k${i}`))), numbers);
    });

    test('a transaction, and one that a change ends', async () => {
      const replies = await client.multi().set('t', '1').incr('t').get('t').exec();
      assert.deepEqual(replies, ['OK', 2, '2']);
      const other = await open().connect();
      await client.watch('t');
      await other.set('t', 'changed');
      await assert.rejects(client.multi().set('t', 'mine').exec(), WatchError);
      await other.close();
    });

    test('hashes, sets and sorted sets', async () => {
      await client.hSet('h', { a: '1', b: '2' });
      assert.deepEqual({ ...(await client.hGetAll('h')) }, { a: '1', b: '2' });
      await client.sAdd('s', ['a', 'b']);
      assert.deepEqual(new Set(await client.sMembers('s')), new Set(['a', 'b']));
      await client.zAdd('z', [{ score: 1, value: 'one' }, { score: 2.5, value: 'two' }]);
      assert.deepEqual(await client.zRangeWithScores('z', 0, -1), [
        { value: 'one', score: 1 },
        { value: 'two', score: 2.5 },
      ]);
    });

    test('every key is found by SCAN', async () => {
      const found = new Set();
      for await (const keys of client.scanIterator({ MATCH: 'k*', COUNT: 50 })) {
        for (const key of keys) found.add(key);
      }
      assert.equal([...found].filter((key) => /^k\d+$/.test(key)).length, 1000);
    });

    test('messages reach subscribers', async () => {
      const listener = await open().connect();
      const seen = [];
      await listener.subscribe('news', (message) => seen.push(message));
      await listener.pSubscribe('n?ws', (message) => seen.push(message));
      assert.equal(await client.publish('news', 'hello'), 2);
      await waitUntil(() => seen.length === 2, 'both messages arrive');
      assert.deepEqual(seen, ['hello', 'hello']);
      await listener.close();
    });

    test('a script that compares and deletes', async () => {
      const script =
        "if redis.call('get',KEYS[1]) == ARGV[1] then " +
        "return redis.call('del',KEYS[1]) else return 0 end";
      await client.set('lock', 'mine');
      assert.equal(await client.eval(script, { keys: ['lock'], arguments: ['other'] }), 0);
      assert.equal(await client.eval(script, { keys: ['lock'], arguments: ['mine'] }), 1);
    });

    test('an error leaves the connection as it was', async () => {
      await assert.rejects(client.sendCommand(['NOSUCH']), /ERR unknown command/);
      await client.set('text', 'abc');
      await assert.rejects(client.incr('text'), /not an integer/);
      assert.equal(await client.ping(), 'PONG');
    });
  });
}

test("node-redis's client-side cache sees the writes of others", async () => {
  const near = await createClient({
    socket: { port: PORT, host: '127.0.0.1' },
    RESP: 3,
    clientSideCache: { ttl: 0, maxEntries: 100, evictPolicy: 'LRU' },
  }).connect();
  const writer = await createClient({ socket: { port: PORT, host: '127.0.0.1' } }).connect();
  await writer.set('near', 'one');
  assert.equal(await near.get('near'), 'one');
  assert.equal(await near.get('near'), 'one');
  await writer.set('near', 'two');
  await waitUntil(async () => (await near.get('near')) === 'two', 'the near cache has the new value');
  await writer.flushAll();
  await waitUntil(async () => (await near.get('near')) === null, 'the near cache drops the key');
  await near.close();
  await writer.close();
});

describe('ioredis', () => {
  let client;

  before(async () => {
    client = new Redis({ port: PORT, host: '127.0.0.1', db: 2 });
    await client.flushall();
  });
  after(() => client.quit());

  test('is ready, which takes INFO', async () => {
    await waitUntil(() => client.status === 'ready', 'the client is ready');
    assert.match(await client.info(), /redis_version:7\.4/);
  });

  test('strings, pipelines and transactions', async () => {
    assert.equal(await client.set('key', 'value', 'PX', 100_000, 'NX'), 'OK');
    assert.equal(await client.get('key'), 'value');
    const pipeline = client.pipeline();
    for (let i = 0; i < 100; i += 1) pipeline.set(`p${i}`, i).get(`p${i}`);
    const replies = await pipeline.exec();
    assert.deepEqual(replies[199], [null, '99']);
    assert.deepEqual(await client.multi().incr('n').incr('n').exec(), [[null, 1], [null, 2]]);
  });

  test('hashes, scripts and bytes', async () => {
    await client.hset('h', { a: 1, b: 2 });
    assert.deepEqual({ ...(await client.hgetall('h')) }, { a: '1', b: '2' });
    client.defineCommand('echoTwice', { numberOfKeys: 1, lua: 'return {KEYS[1], ARGV[1]}' });
    assert.deepEqual(await client.echoTwice('k', 'v'), ['k', 'v']);
    const bytes = Buffer.from(Array.from({ length: 256 }, (_, i) => i));
    await client.set('bytes', bytes);
    assert.deepEqual(await client.getBuffer('bytes'), bytes);
  });

  test('messages reach subscribers', async () => {
    const listener = new Redis({ port: PORT, host: '127.0.0.1' });
    const heard = new Promise((done) => listener.on('message', (_, message) => done(message)));
    await listener.subscribe('news');
    await client.publish('news', 'hello');
    assert.equal(await heard, 'hello');
    listener.disconnect();
  });

  test('every key is found by a scan stream', async () => {
    const found = new Set();
    for await (const keys of client.scanStream({ match: 'p*', count: 10 })) {
      for (const key of keys) found.add(key);
    }
    assert.equal(found.size, 100);
  });
});
