const Redis = require('ioredis');
const { host, port, run, show } = require('./helpers.cjs');

run(async () => {
    const r = new Redis({ host, port, maxRetriesPerRequest: 1 });
    show('push', await r.rpush('jobs', 'a', 'b', 'c'), await r.llen('jobs'));
    show('range', await r.lrange('jobs', 0, -1), await r.lpop('jobs'));
    show('blocking', await r.blpop('jobs', 1), await r.brpop('none', 1));
});
