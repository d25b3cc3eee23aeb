const Redis = require('ioredis');
const { RedisPubSub } = require('graphql-redis-subscriptions');
const { host, port, run, show } = require('./helpers.cjs');

run(async () => {
    const connected = () => new Redis({ host, port });
    const events = new RedisPubSub({ publisher: connected(), subscriber: connected() });
    const heard = new Promise((resolve) =>
        events.subscribe('news', resolve).then(() => events.publish('news', { text: 'hello' })),
    );
    show('heard', await heard);
});
