"""What every program needs: the server's address, and lines to be compared."""

import os
import time

HOST = os.environ["HOST"]
PORT = int(os.environ["PORT"])
ADDRESS = f"{HOST}:{PORT}"
URL = f"redis://{ADDRESS}/0"
# Set when the program is to use the setting that its row names.
SETTING = "SETTING" in os.environ


def show(what, *values):
    """One line of the program's result."""
    print(f"{what}:", *(repr(value) for value in values), flush=True)


def near(seconds, expected):
    """Whether a TTL is what was set, but for a moment that has gone by."""
    return seconds is not None and expected - 3 <= seconds <= expected


def error(action, *arguments, **named):
    """The kind of error that a call ends in, or its value."""
    try:
        return action(*arguments, **named)
    except Exception as problem:  # every library has its own
        return type(problem).__name__


def until(condition, seconds=15):
    """Waits until something is so."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return False
