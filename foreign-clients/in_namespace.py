#!/usr/bin/env python3
"""Runs a command in a network namespace of its own, beside servers on the ports that it expects.

  in_namespace.py --server "redis-server --port 6379" --logs DIR -- COMMAND...

Suites of clients want a server on its usual port and start further ones on ports that are fixed.
In a namespace nothing else of the machine uses them. The exit status is the command's; a server that
ends early or badly is reported in DIR/ended-badly.
"""

import argparse
import pathlib
import re
import subprocess
import sys

from servers import Server


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--server", action="append", default=[], help="its command, with -p or --port")
    parser.add_argument("--logs", type=pathlib.Path, required=True, help="a folder for their output")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    started = []
    try:
        for number, server in enumerate(options.server):
            port = int(re.search(r"-p(?:ort)? (\d+)", server)[1])
            started.append(Server(server, options.logs / f"server-{number}.log", port))
        status = subprocess.run(options.command).returncode
    finally:
        wrong = [reason for server in started if (reason := server.stop())]
    if wrong:
        (options.logs / "ended-badly").write_text("\n".join(wrong))
    sys.exit(status)


if __name__ == "__main__":
    main()
