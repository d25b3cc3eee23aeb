"""What all upstream test suites share: outcomes of tests, and a program that is run with a limit."""

import contextlib
import os
import signal
import subprocess
import tempfile

OK, FAILED, SKIPPED = "ok", "failed", "skipped"
# A result that stands for all tests which a unit did not come to.
END = "(its end)"
# What takes longer has not ended; files of memcached wait for ever for what is not there.
UNIT_SECONDS_MAX = 420


def run_to_the_end(command, folder, seconds_max=UNIT_SECONDS_MAX, **options):
    """The exit status, None if the command ran too long, and its output; its children are killed."""
    command = [str(part) for part in command]
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        # A group of its own: what the suite has started ends with it, and holds no pipe open.
        process = subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            **options,
        )
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=seconds_max)
        status = process.poll()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        output.seek(0)
        return status, output.read()
