const { run, show, url } = require('./helpers.cjs');

run(async () => {
    const { Cacheable } = await import('cacheable');
    const { createKeyv } = await import('@keyv/redis');
    const cache = new Cacheable({ secondary: createKeyv(url) });
    const other = new Cacheable({ secondary: createKeyv(url) });
    show('set', await cache.set('a', { n: 1 }, '1m'), await other.get('a'));
    show('delete', await cache.delete('a'), await cache.get('a'));
});
