const Bull = require('bull');
const { host, port, run, show } = require('./helpers.cjs');

run(async () => {
    const queue = new Bull('sums', { redis: { host, port, maxRetriesPerRequest: 1 } });
    const done = new Promise((resolve, reject) => {
        queue.on('completed', (_job, result) => resolve(result));
        queue.on('error', reject);
    });
    done.catch(() => {});
    await queue.add({ x: 2, y: 3 });
    queue.process(async (job) => job.data.x + job.data.y).catch(() => {});
    show('result', await done, (await queue.getJobCounts()).completed);
});
