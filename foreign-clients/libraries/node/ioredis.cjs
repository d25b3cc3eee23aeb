const Redis = require('ioredis');
const { host, near, port, run, show } = require('./helpers.cjs');

run(async () => {
    const r = new Redis({ host, port, maxRetriesPerRequest: 1 });
    show('set', await r.set('a', '1', 'EX', 60), await r.get('a'), near(await r.ttl('a'), 60));
    show('many', await r.mset({ x: 1, y: 2 }), await r.mget('x', 'none', 'y'), await r.del('x', 'no'));
    show('hash', await r.hset('h', { f: 'v', n: 1 }), await r.hgetall('h'));
    show('sorted', await r.zadd('z', 1, 'a', 2, 'b'), await r.zrange('z', 0, -1, 'WITHSCORES'));
    show('pipeline', await r.pipeline().set('p', 1).incr('p').get('none').exec());
    show('multi', await r.multi().incr('p').expire('p', 60).exec());
    r.defineCommand('add', { numberOfKeys: 1, lua: "return redis.call('INCRBY', KEYS[1], ARGV[1])" });
    show('script', await r.add('p', 10), await r.add('p', 10));
    const listener = r.duplicate();
    const heard = new Promise((resolve) => listener.on('pmessage', (...all) => resolve(all)));
    await listener.psubscribe('new*');
    show('message', await r.publish('news', 'hello'), await heard);
    const keys = [];
    for await (const some of r.scanStream({ match: '?' })) keys.push(...some);
    show('scan', keys.sort());
});
