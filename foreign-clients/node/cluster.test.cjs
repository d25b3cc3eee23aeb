// A cluster through node-redis and ioredis; cluster_clients.py has the nodes.
'use strict';

const assert = require('node:assert/strict');
const net = require('node:net');
const { once } = require('node:events');
const { test } = require('node:test');
const { setImmediate } = require('node:timers/promises');
const { createCluster } = require('redis');
const Redis = require('ioredis');
const { waitUntil } = require('./waiting.cjs');

const NODES = process.env.CLUSTER_NODES.split(',').map((node) => {
  const [host, port] = node.split(':');
  return { host, port: Number(port) };
});
const KEYS = 1000;

async function openNodeRedis(RESP) {
  const rootNodes = NODES.map((socket) => ({ socket }));
  const client = await createCluster({ rootNodes, RESP }).on('error', () => {}).connect();
  return {
    set: (key, value) => client.set(key, value),
    get: (key) => client.get(key),
    close: () => client.close(),
  };
}

async function openIoredis() {
  const client = new Redis.Cluster(NODES);
  client.on('error', () => {});
  return {
    set: (key, value) => client.set(key, value),
    get: (key) => client.get(key),
    close: () => client.quit(),
  };
}

const CLIENTS = {
  'node-redis-2': () => openNodeRedis(2),
  'node-redis-3': () => openNodeRedis(3),
  ioredis: openIoredis,
};

// Has a scene happen; cluster_clients.py says which there are.
async function play(scene) {
  const [host, port] = process.env.CLUSTER_STAGE.split(':');
  const connection = net.connect(Number(port), host);
  connection.write(`${scene}\n`);
  const [answer] = await once(connection, 'data');
  assert.equal(String(answer), 'done\n');
}

// Writes without a pause until it is called again; some of it is stored.
function writing(client, keys) {
  let isOver = false;
  let stored = 0;
  const ended = (async () => {
    for (let turn = 0; !isOver; turn += 1) {
      await client.set(`written:${keys[turn % KEYS]}`, 'written').then(
        () => (stored += 1),
        () => setImmediate(),
      );
    }
  })();
  return async () => {
    // One answer that a dead node owes may take longer than the scene.
    try {
      await waitUntil(() => stored > 0, 'something is stored');
    } finally {
      isOver = true;
      await ended;
    }
  };
}

async function storesAndFindsAll(client, keys, value) {
  const [one, other] = [keys.slice(0, KEYS / 2), keys.slice(KEYS / 2)];
  for (const key of one) await client.set(key, value);
  await Promise.all(other.map((key) => client.set(key, value)));
  const found = await Promise.all(one.map((key) => client.get(key)));
  for (const key of other) found.push(await client.get(key));
  assert.equal(found.filter((seen) => seen === value).length, KEYS);
}

// Tries until nothing fails: what a client has of a dead node it may find out first.
async function atLast(attempt) {
  const doesNotFail = async () => {
    try {
      await attempt();
      return true;
    } catch (problem) {
      if (problem instanceof assert.AssertionError) throw problem;
      return false;
    }
  };
  await waitUntil(doesNotFail, 'no command fails');
}

for (const [name, open] of Object.entries(CLIENTS)) {
  test(`${name} goes on`, async () => {
    const client = await open();
    const keys = Array.from({ length: KEYS }, (_, i) => `${name}:${i}`);
    await storesAndFindsAll(client, keys, 'first');
    for (const scene of ['goes', 'comes']) {
      const end = writing(client, keys);
      await play(scene);
      await end();
      await storesAndFindsAll(client, keys, scene);
    }
    for (const scene of ['dies', 'returns']) {
      const end = writing(client, keys);
      await play(scene);
      await end();
      await atLast(() => storesAndFindsAll(client, keys, scene));
    }
    await client.close();
  });
}
