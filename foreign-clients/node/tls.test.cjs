// Cellar over TLS through node-redis and ioredis; foreign-clients/run starts the servers, and
// encrypted.py says what stands in the folder TLS_FOLDER.
'use strict';

const assert = require('node:assert/strict');
const { once } = require('node:events');
const { readFileSync } = require('node:fs');
const { join } = require('node:path');
const { describe, test } = require('node:test');
const tls = require('node:tls');
const { createClient, createClientPool } = require('redis');
const Redis = require('ioredis');
const { waitUntil } = require('./waiting.cjs');

const SIZES = [1, 2, 1000, 16_383, 16_384, 16_385, 100_000, 1 << 20];
const VERSIONS = ['TLSv1.2', 'TLSv1.3'];
const POOL = 4;

const read = (name) => readFileSync(join(process.env.TLS_FOLDER, name));
const [header, ...rows] = String(read('connections.tsv')).trimEnd().split('\n');
const ROWS = rows.map((row) => {
  const fields = row.split('\t').map((field) => (field === '-' ? undefined : field));
  return Object.fromEntries(header.split('\t').map((name, i) => [name, fields[i]]));
});
const named = (name) => ROWS.find((row) => row.name === name);

// What TLS needs to know who connects in this way.
function trust(row, { version, authority = 'ca', certificate = row.certificate } = {}) {
  const shown = certificate && { cert: read(`${certificate}.pem`), key: read(`${certificate}.key`) };
  const versions = version && { minVersion: version, maxVersion: version };
  const place = { host: 'localhost', port: Number(row.resp), servername: 'localhost' };
  return { ...place, ca: read(`${authority}.pem`), ...shown, ...versions };
}

function nodeRedis(row, options = {}, more = {}) {
  return {
    socket: { tls: true, reconnectStrategy: false, ...trust(row, options), ...more },
    username: row.user,
    password: row.password,
  };
}

function openIoredis(row, options = {}) {
  const { host, port, ...known } = trust(row, options);
  const { user: username, password } = row;
  const once = { retryStrategy: null, maxRetriesPerRequest: 0, lazyConnect: true };
  const client = new Redis({ host, port, tls: known, username, password, ...once });
  client.on('error', () => {});
  return client;
}

// A connection of TLS alone, after an answer: whether it went on with a session, and the session.
async function handshake(row, options = {}, session = undefined) {
  const socket = tls.connect({ ...trust(row, options), session });
  let latest;
  socket.on('session', (given) => (latest = given));
  socket.write('HELLO 9\r\n');
  await once(socket, 'data');
  const { serialNumber } = socket.getPeerCertificate();
  const outcome = { reused: socket.isSessionReused(), session: latest, serialNumber };
  socket.destroy();
  return outcome;
}

async function figure(row, name) {
  const headers = row.token ? { authorization: `Bearer ${row.token}` } : {};
  const reply = await fetch(`http://127.0.0.1:${row.figures}/metrics`, { headers });
  return Number(new RegExp(`^${name} (\\d+)$`, 'm').exec(await reply.text())[1]);
}

async function anotherCertificate(row) {
  const first = (await handshake(row)).serialNumber;
  const isAnother = async () => (await handshake(row)).serialNumber !== first;
  await waitUntil(isAnother, 'the server shows another certificate');
}

for (const row of ROWS) {
  for (const version of VERSIONS) {
    describe(`${row.name}, ${version}`, () => {
      test('node-redis has a pool, and commands sent together', async () => {
        const pool = createClientPool(nodeRedis(row, { version }), { minimum: POOL, maximum: POOL });
        await pool.connect();
        await Promise.all(
          SIZES.map(async (size) => {
            const value = String(size % 10).repeat(size);
            assert.equal(await pool.set(`node-${size}`, value), 'OK');
            assert.equal(await pool.get(`node-${size}`), value);
          }),
        );
        const numbers = Array.from({ length: 1000 }, (_, i) => String(i));
        await Promise.all(numbers.map((i) => pool.set(`k${i}`, i)));
        assert.deepEqual(await Promise.all(numbers.map((i) => pool.get(`k${i}`))), numbers);
        await pool.close();
      });

      test('node-redis hears messages', async () => {
        const [listener, client] = await Promise.all(
          [0, 1].map(() => createClient(nodeRedis(row, { version })).connect()),
        );
        const heard = new Promise((done) => listener.subscribe('node-news', done).then(
          () => client.publish('node-news', 'x'.repeat(100_000)),
        ));
        assert.equal((await heard).length, 100_000);
        await listener.close();
        await client.close();
      });

      test('ioredis has pipelines and hears messages', async () => {
        const [client, listener] = [openIoredis(row, { version }), openIoredis(row, { version })];
        const pipeline = client.pipeline();
        for (const size of SIZES) {
          pipeline.set(`io-${size}`, Buffer.alloc(size, size % 251)).getBuffer(`io-${size}`);
        }
        const replies = await pipeline.exec();
        for (const [i, size] of SIZES.entries()) {
          assert.deepEqual(replies[2 * i + 1], [null, Buffer.alloc(size, size % 251)]);
        }
        const heard = once(listener, 'message');
        await listener.subscribe('io-news');
        await client.publish('io-news', 'hello');
        assert.deepEqual(await heard, ['io-news', 'hello']);
        listener.disconnect();
        client.disconnect();
      });
    });
  }

  test(`${row.name}: a certificate of another authority is refused`, async () => {
    const refusal = /self-signed|unable to (verify|get)|certificate signature failure/;
    const client = createClient(nodeRedis(row, { authority: 'other' })).on('error', () => {});
    await assert.rejects(client.connect(), refusal);
    const other = openIoredis(row, { authority: 'other' });
    const [error] = await Promise.all([once(other, 'error'), assert.rejects(other.connect())]);
    assert.match(error[0].message, refusal);
    other.disconnect();
  });
}

for (const version of VERSIONS) {
  test(`${version}: without a certificate of the authority nobody comes in`, async () => {
    const row = named('mutual');
    const client = await createClient(nodeRedis(row, { version })).connect();
    assert.match(await client.sendCommand(['CLIENT', 'INFO']), / identity=alice/);
    await client.close();
    for (const certificate of [null, 'stranger']) {
      const options = { version, certificate };
      const refused = createClient(nodeRedis(row, options)).on('error', () => {});
      // In 1.3 the server looks at the certificate when the client already holds itself connected.
      await assert.rejects(refused.connect().then(() => refused.ping()));
      const other = openIoredis(row, options);
      await assert.rejects(other.connect().then(() => other.ping()));
      other.disconnect();
    }
  });

  test(`${version}: node-redis connects anew and its session goes on`, async (t) => {
    for (const row of [named('passwords'), named('mutual')]) {
      const { session, reused } = await handshake(row, { version });
      assert.equal(reused, false);
      assert.equal((await handshake(row, { version }, session)).reused, true);
      const before = await figure(row, 'cellar_tls_handshakes_resumed_total');
      const more = { session, reconnectStrategy: () => 10 };
      const client = createClient(nodeRedis(row, { version }, more)).on('error', () => {});
      t.after(() => client.destroy());
      await client.connect();
      const id = await client.sendCommand(['CLIENT', 'ID']);
      const other = await createClient(nodeRedis(row)).connect();
      const again = new Promise((done) => client.once('ready', done));
      await other.sendCommand(['CLIENT', 'KILL', 'ID', String(id)]);
      await again;
      assert.notEqual(await client.sendCommand(['CLIENT', 'ID']), id);
      assert.equal(await figure(row, 'cellar_tls_handshakes_resumed_total'), before + 2);
      await other.close();
    }
  });
}

test('connections outlive their certificate', async () => {
  const row = named('changing');
  const client = await createClient(nodeRedis(row)).connect();
  const other = openIoredis(row);
  const ids = async () => [await client.sendCommand(['CLIENT', 'ID']), await other.client('ID')];
  const first = await ids();
  for (let turn = 0; turn < 2; turn += 1) {
    await anotherCertificate(row);
    assert.deepEqual(await ids(), first);
  }
  await client.close();
  other.disconnect();
});
