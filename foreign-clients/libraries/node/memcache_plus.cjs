const MemcachePlus = require('memcache-plus');
const { address, run, show } = require('./helpers.cjs');

run(async () => {
    const client = new MemcachePlus(address);
    show('set', await client.set('a', { n: 1 }, 60), await client.get('a'));
    show('count', await client.set('x', '5'), await client.incr('x'), await client.decr('x', 2));
    show('many', await client.getMulti(['a', 'x']), await client.delete('a'), await client.get('a'));
});
