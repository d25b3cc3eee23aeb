const fastify = require('fastify')();
const { host, port, run, show } = require('./helpers.cjs');

run(async () => {
    fastify.register(require('@fastify/redis'), { host, port });
    fastify.get('/', async () => ({ visits: await fastify.redis.incr('visits') }));
    const visits = [await fastify.inject('/'), await fastify.inject('/')];
    show('visits', visits.map((answer) => answer.json()));
});
