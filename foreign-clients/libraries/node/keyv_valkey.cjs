const { Keyv } = require('keyv');
const { url, run, show } = require('./helpers.cjs');

run(async () => {
    const module = await import('@keyv/valkey');
    const Store = module.default ?? module.KeyvMemcache;
    const keyv = new Keyv(new Store(url), { namespace: 'app' });
    keyv.on('error', (problem) => show('error', problem.message));
    show('set', await keyv.set('a', { n: 1 }, 60_000), await keyv.get('a'), await keyv.has('a'));
    await keyv.set('b', 2);
    show('many', await keyv.get(['a', 'none', 'b']), await keyv.delete('a'), await keyv.get('a'));
    show('clear', await keyv.clear(), await keyv.get('b'));
});
