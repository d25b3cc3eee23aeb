const apicache = require('apicache');
const express = require('express');
const { run, show } = require('./helpers.cjs');

run(async () => {
    // apicache takes a client of node-redis 2 and 3; koa-redis and others bring ioredis, which fits.
    const Redis = require('ioredis');
    const { host, port } = require('./helpers.cjs');
    const cache = apicache.options({ redisClient: Object.assign(new Redis({ host, port }), { connected: true }) }).middleware;
    const app = express();
    let calls = 0;
    app.get('/', cache('1 minute'), (_request, response) => response.json({ calls: ++calls }));
    const server = app.listen(0, '127.0.0.1');
    await new Promise((resolve) => server.once('listening', resolve));
    const asked = async () => (await fetch(`http://127.0.0.1:${server.address().port}/`)).text();
    show('cached', await asked(), await asked(), calls);
});
