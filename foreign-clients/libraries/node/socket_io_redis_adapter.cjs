const { createServer } = require('node:http');
const { createAdapter } = require('@socket.io/redis-adapter');
const { createClient } = require('redis');
const { Server } = require('socket.io');
const { run, show, sleep, url } = require('./helpers.cjs');

const started = async () => {
    const client = await createClient({ url }).connect();
    const listener = await client.duplicate().connect();
    return new Server(createServer(), { adapter: createAdapter(client, listener) });
};

run(async () => {
    const [one, two] = [await started(), await started()];
    const heard = new Promise((resolve) => two.on('news', (...all) => resolve(all)));
    for (let i = 0; i < 50 && (await one.of('/').adapter.serverCount()) < 2; i++) await sleep(50);
    one.serverSideEmit('news', 'hello');
    show('heard', await heard, await one.of('/').adapter.serverCount());
    show('sockets', (await one.fetchSockets()).length);
});
