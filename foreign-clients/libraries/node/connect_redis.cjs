const { createClient } = require('redis');
const { run, show, url } = require('./helpers.cjs');
const { visited } = require('./sessions.cjs');

run(async () => {
    const { RedisStore } = await import('connect-redis');
    const client = await createClient({ url }).connect();
    const store = new RedisStore({ client, prefix: 'session:', ttl: 600 });
    await visited(store);
    show('sessions', (await client.keys('session:*')).length, (await store.all()).length);
});
