const { Queue, Worker } = require('node-resque');
const { host, port, run, show } = require('./helpers.cjs');

run(async () => {
    const connection = { host, port, database: 0, options: { maxRetriesPerRequest: 1 } };
    const jobs = { add: { perform: async (x, y) => x + y } };
    const queue = new Queue({ connection }, jobs);
    queue.on('error', (problem) => show('error', problem.message));
    await queue.connect();
    await queue.enqueue('math', 'add', [2, 3]);
    const worker = new Worker({ connection, queues: ['math'] }, jobs);
    const done = new Promise((resolve, reject) => {
        worker.on('success', (_queue, _job, result) => resolve(result));
        worker.on('error', reject);
    });
    await worker.connect();
    await worker.start();
    show('result', await done);
    await worker.end();
});
