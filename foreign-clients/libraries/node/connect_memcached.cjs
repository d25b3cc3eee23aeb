const session = require('express-session');
const { address, run } = require('./helpers.cjs');
const { visited } = require('./sessions.cjs');

run(async () => {
    const Store = require('connect-memcached')(session);
    await visited(new Store({ hosts: [address] }));
});
