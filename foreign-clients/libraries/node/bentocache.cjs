const { host, port, run, show } = require('./helpers.cjs');

run(async () => {
    const { BentoCache, bentostore } = await import('bentocache');
    const { redisDriver, redisBusDriver } = await import('bentocache/drivers/redis');
    const { memoryDriver } = await import('bentocache/drivers/memory');
    const connection = { host, port };
    const made = () =>
        new BentoCache({
            default: 'two',
            stores: {
                two: bentostore()
                    .useL1Layer(memoryDriver())
                    .useL2Layer(redisDriver({ connection }))
                    .useBus(redisBusDriver({ connection })),
            },
        });
    const [one, two] = [made(), made()];
    let calls = 0;
    const get = (cache) => cache.getOrSet({ key: 'a', ttl: '1m', factory: () => ({ n: ++calls }) });
    show('made', await get(one), await get(two), calls);
    show('delete', await one.delete({ key: 'a' }), await one.has({ key: 'a' }));
});
