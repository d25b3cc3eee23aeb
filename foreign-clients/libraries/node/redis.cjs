const { createClient } = require('redis');
const { near, run, show, url } = require('./helpers.cjs');

run(async () => {
    for (const RESP of [2, 3]) {
        const r = await createClient({ url, RESP }).connect();
        await r.flushDb();
        show('set', await r.set('a', '1', { EX: 60 }), await r.get('a'), near(await r.ttl('a'), 60));
        show('many', await r.mSet({ x: '1', y: '2' }), await r.mGet(['x', 'none', 'y']));
        show('hash', await r.hSet('h', { f: 'v', n: 1 }), await r.hGetAll('h'));
        show('sorted', await r.zAdd('z', [{ score: 1, value: 'a' }]), await r.zRange('z', 0, -1));
        show('multi', await r.multi().set('p', '1').incr('p').exec());
        show('script', await r.eval('return ARGV[1]', { keys: ['k'], arguments: ['v'] }));
        const listener = await r.duplicate().connect();
        const heard = new Promise((resolve) => listener.subscribe('news', resolve).then(() => r.publish('news', 'hello')));
        show('message', await heard, await r.del(['x', 'none']));
        const keys = [];
        for await (const some of r.scanIterator({ MATCH: '?' })) keys.push(...some);
        show('scan', keys.sort());
        listener.destroy();
        r.destroy();
    }
});
