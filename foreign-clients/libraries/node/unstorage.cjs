const { run, show, url } = require('./helpers.cjs');

run(async () => {
    const { createStorage } = await import('unstorage');
    const { default: driver } = await import('unstorage/drivers/redis');
    const storage = createStorage({ driver: driver({ base: 'app', url, ttl: 60 }) });
    await storage.setItem('a', { n: 1 });
    show('set', await storage.getItem('a'), await storage.hasItem('a'), await storage.getKeys());
    await storage.removeItem('a');
    show('removed', await storage.getItem('a'));
});
