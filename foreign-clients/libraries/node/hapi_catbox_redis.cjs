const Catbox = require('@hapi/catbox');
const { Engine } = require('@hapi/catbox-redis');
const { host, port, run, show } = require('./helpers.cjs');

run(async () => {
    const client = new Catbox.Client(new Engine({ host, port, partition: 'app' }));
    await client.start();
    const policy = new Catbox.Policy(
        { expiresIn: 60_000, generateFunc: async (id) => `made of ${id}`, generateTimeout: 5000 },
        client,
        'segment',
    );
    show('made', await policy.get('a'), await policy.get('a'), policy.stats.generates);
    show('set', await policy.set('b', { n: 1 }), await policy.get('b'), await policy.drop('b'));
});
