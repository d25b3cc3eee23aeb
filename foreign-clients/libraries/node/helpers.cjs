// What every program needs: the server's address, lines to be compared, and an end.

const host = process.env.HOST;
const port = Number(process.env.PORT);

module.exports = {
    host,
    port,
    address: `${host}:${port}`,
    url: `redis://${host}:${port}`,
    // Set when the program is to use the setting that its row names.
    setting: 'SETTING' in process.env,
    // One line of the program's result.
    show: (what, ...values) =>
        console.log(
            `${what}:`,
            ...values.map((value) => (value === undefined ? 'undefined' : JSON.stringify(value))),
        ),
    // Whether a TTL is what was set, but for a moment that has gone by.
    near: (seconds, expected) => expected - 3 <= seconds && seconds <= expected,
    sleep: (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds)),
    // Turns a function with a callback at its end into a promise.
    called: (object, method, ...values) =>
        new Promise((resolve, reject) =>
            object[method](...values, (problem, value) =>
                problem ? reject(problem) : resolve(value),
            ),
        ),
    // Runs a program to its end, whatever connections it leaves open.
    run: (program) =>
        program().then(
            () => process.exit(0),
            (problem) => {
                console.error(`${problem}`);
                process.exit(1);
            },
        ),
};
process.on('unhandledRejection', (problem) => {
    console.error(`${problem}`);
    process.exit(1);
});
