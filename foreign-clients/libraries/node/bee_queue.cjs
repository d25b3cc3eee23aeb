const Queue = require('bee-queue');
const { host, port, run, show } = require('./helpers.cjs');

run(async () => {
    const queue = new Queue('sums', { redis: { host, port } });
    const failed = new Promise((_, reject) => queue.on('error', reject));
    const job = queue.createJob({ x: 2, y: 3 });
    const done = new Promise((resolve) => job.on('succeeded', resolve));
    await Promise.race([job.save(), failed]);
    queue.process(async (one) => one.data.x + one.data.y);
    show('result', await Promise.race([done, failed]));
});
