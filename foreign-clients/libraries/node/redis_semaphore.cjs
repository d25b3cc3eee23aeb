const Redis = require('ioredis');
const { Mutex, Semaphore } = require('redis-semaphore');
const { host, port, run, show } = require('./helpers.cjs');

run(async () => {
    const r = new Redis({ host, port });
    const mutex = new Mutex(r, 'printer');
    show('mutex', await mutex.tryAcquire(), await new Mutex(r, 'printer').tryAcquire());
    await mutex.release();
    const both = [1, 2, 3].map(() => new Semaphore(r, 'desk', 2, { acquireTimeout: 100 }));
    const got = [];
    for (const one of both) got.push(await one.tryAcquire());
    show('semaphore', got);
    for (const one of both.slice(0, 2)) await one.release();
});
