const express = require('express');
const { rateLimit } = require('express-rate-limit');
const { RedisStore } = require('rate-limit-redis');
const { createClient } = require('redis');
const { run, show, url } = require('./helpers.cjs');

run(async () => {
    const client = await createClient({ url }).connect();
    const store = new RedisStore({ sendCommand: (...all) => client.sendCommand(all) });
    const app = express();
    app.use(rateLimit({ windowMs: 60_000, limit: 3, store }));
    app.get('/', (_request, response) => response.send('hello'));
    const server = app.listen(0, '127.0.0.1');
    await new Promise((resolve) => server.once('listening', resolve));
    const statuses = [];
    for (let i = 0; i < 5; i++) {
        statuses.push((await fetch(`http://127.0.0.1:${server.address().port}/`)).status);
    }
    show('answers', statuses);
});
