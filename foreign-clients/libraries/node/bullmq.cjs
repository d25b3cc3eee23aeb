const { Queue, QueueEvents, Worker } = require('bullmq');
const { host, port, run, show } = require('./helpers.cjs');

run(async () => {
    const connection = { host, port, maxRetriesPerRequest: null };
    const queue = new Queue('sums', { connection });
    const events = new QueueEvents('sums', { connection });
    const failed = new Promise((_, reject) => [queue, events].forEach((one) => one.on('error', reject)));
    failed.catch(() => {});
    const worked = (async () => {
        await events.waitUntilReady();
        const job = await queue.add('sum', { x: 2, y: 3 });
        const worker = new Worker('sums', async (one) => one.data.x + one.data.y, { connection });
        worker.on('error', () => {});
        return job.waitUntilFinished(events, 10_000);
    })();
    show('result', await Promise.race([worked, failed]));
});
