const Memcached = require('memcached');
const { address, called, run, show } = require('./helpers.cjs');

run(async () => {
    const client = new Memcached(address);
    const call = (...all) => called(client, ...all);
    show('set', await call('set', 'a', { n: 1 }, 60), await call('get', 'a'));
    show('add', await call('add', 'b', 1, 60), await call('add', 'b', 1, 60).catch(() => 'there'));
    show('many', await call('set', 'x', 5, 60), await call('getMulti', ['a', 'none', 'x']));
    show('count', await call('incr', 'x', 4), await call('decr', 'x', 2), await call('incr', 'no', 1));
    const { cas, x } = await call('gets', 'x');
    show('cas', x, await call('cas', 'x', 9, cas, 60), await call('touch', 'x', 30));
    show('text', await call('set', 't', 'b', 60), await call('append', 't', 'c'), await call('get', 't'));
    show('delete', await call('del', 'a'), await call('get', 'a'), await call('flush'));
});
