const { run, show, url } = require('./helpers.cjs');

run(async () => {
    const { createCache } = await import('cache-manager');
    const { createKeyv } = await import('@keyv/redis');
    const cache = createCache({ stores: [createKeyv(url)] });
    let calls = 0;
    const made = () => cache.wrap('made', async () => `${++calls}`, 60_000);
    show('wrap', await made(), await made(), calls);
    show('set', await cache.set('a', { n: 1 }, 60_000), await cache.get('a'));
    await cache.mset([{ key: 'x', value: 1 }, { key: 'y', value: 2 }]);
    show('many', await cache.mget(['x', 'none', 'y']), await cache.del('x'), await cache.get('x'));
    show('clear', await cache.clear(), await cache.get('y'));
});
