const memjs = require('memjs');
const { address, run, show } = require('./helpers.cjs');

run(async () => {
    const client = memjs.Client.create(address, { retries: 1, timeout: 20 });
    show('set', await client.set('a', 'one', { expires: 60 }), `${(await client.get('a')).value}`);
    show('add', await client.add('b', '1', {}), (await client.increment('n', 1, { initial: 5 })).value);
    show('delete', await client.delete('a'), (await client.get('a')).value);
});
