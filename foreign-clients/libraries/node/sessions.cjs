// An application of Express with sessions in a store, visited three times and left.

const express = require('express');
const session = require('express-session');
const { show } = require('./helpers.cjs');

exports.visited = async (store) => {
    const app = express();
    app.use(session({ store, secret: 'of no value', resave: false, saveUninitialized: false }));
    app.get('/visit', (request, response) => {
        request.session.visits = (request.session.visits ?? 0) + 1;
        response.send(`${request.session.visits}`);
    });
    app.get('/leave', (request, response) => request.session.destroy(() => response.send('bye')));
    const server = app.listen(0, '127.0.0.1');
    await new Promise((resolve) => server.once('listening', resolve));
    let cookie = '';
    const asked = async (path) => {
        const url = `http://127.0.0.1:${server.address().port}${path}`;
        const answer = await fetch(url, { headers: { cookie } });
        cookie = answer.headers.get('set-cookie')?.split(';')[0] ?? cookie;
        return answer.text();
    };
    show('visits', await asked('/visit'), await asked('/visit'), await asked('/visit'));
    show('left', await asked('/leave'), await asked('/visit'));
};
