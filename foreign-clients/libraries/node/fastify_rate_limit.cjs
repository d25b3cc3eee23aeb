const fastify = require('fastify')();
const Redis = require('ioredis');
const { host, port, run, show } = require('./helpers.cjs');

run(async () => {
    const redis = new Redis({ host, port });
    await fastify.register(require('@fastify/rate-limit'), { max: 3, timeWindow: 60_000, redis });
    fastify.get('/', async () => 'hello');
    const statuses = [];
    for (let i = 0; i < 5; i++) statuses.push((await fastify.inject('/')).statusCode);
    show('answers', statuses);
});
