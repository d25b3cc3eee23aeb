const { host, port, run, show } = require('./helpers.cjs');

run(async () => {
    const store = require('koa-redis')({ host, port });
    show('set', await store.set('id', { user: 'ada' }, 60_000), await store.get('id'));
    show('destroy', await store.destroy('id'), (await store.get('id')) ?? null);
});
