const { GlideClient, TimeUnit } = require('@valkey/valkey-glide');
const { host, near, port, run, show } = require('./helpers.cjs');

run(async () => {
    const client = await GlideClient.createClient({ addresses: [{ host, port }] });
    show('set', await client.set('a', '1', { expiry: { type: TimeUnit.Seconds, count: 60 } }));
    show('get', await client.get('a'), near(await client.ttl('a'), 60), await client.incr('a'));
    show('many', await client.mset({ x: '1', y: '2' }), await client.mget(['x', 'none', 'y']));
    show('hash', await client.hset('h', { f: 'v' }), await client.hgetall('h'));
});
