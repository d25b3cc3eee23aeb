const Redis = require('ioredis');
const Redlock = require('redlock');
const { host, port, run, show } = require('./helpers.cjs');

run(async () => {
    const locks = new Redlock([new Redis({ host, port })], { retryCount: 1, retryDelay: 10 });
    const lock = await locks.lock('printer', 5000);
    show('locked', await locks.lock('printer', 5000).catch((problem) => problem.name));
    await lock.extend(9000);
    await lock.unlock();
    show('again', (await locks.lock('printer', 5000)).resource);
});
