const { RateLimiterMemcache } = require('rate-limiter-flexible');
const { address, run, show } = require('./helpers.cjs');

run(async () => {
    const storeClient = new (require('memcached'))(address);
    const limiter = new RateLimiterMemcache({ storeClient, points: 3, duration: 60 });
    const tried = [];
    for (let i = 0; i < 5; i++) {
        tried.push(await limiter.consume('me').then((got) => got.remainingPoints, () => 'refused'));
    }
    show('consumed', tried, (await limiter.get('me')).consumedPoints);
    show('deleted', await limiter.delete('me'), await limiter.get('me'));
});
