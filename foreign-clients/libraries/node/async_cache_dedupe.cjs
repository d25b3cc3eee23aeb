const Redis = require('ioredis');
const { createCache } = require('async-cache-dedupe');
const { host, port, run, show, sleep } = require('./helpers.cjs');

run(async () => {
    const client = new Redis({ host, port });
    const cache = createCache({ ttl: 60, storage: { type: 'redis', options: { client, invalidation: true } } });
    let calls = 0;
    cache.define('user', { references: (_args, _key, result) => [`user:${result.id}`] }, async (id) => {
        calls++;
        return { id };
    });
    show('cached', await cache.user(1), await cache.user(1), calls);
    await cache.invalidateAll('user:1');
    await sleep(50);
    show('invalidated', await cache.user(1), calls);
});
