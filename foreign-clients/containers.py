"""Looks at what Docker would run, without Docker: containers.py CELLAR build|run|compose ...

build    the Dockerfile makes an image with the settings of the one that packaging/forms/image makes
run      the server takes the variables, and listens on each port that is published
compose  the same of each service in compose.yaml, whose variables without a default are given
"""

import os
import pathlib
import re
import subprocess
import sys

import yaml

ROOT = pathlib.Path(__file__).resolve().parent.parent
# What both images say of themselves, in the words of the Dockerfile and of packaging/forms/image.
SAME = {
    "USER 65532:65532": "USER = 65532",
    "EXPOSE 6379 8080 11211": "PORTS = (6379, 8080, 11211)",
    "ENV CELLAR_MEMORY=auto CELLAR_LAME_DUCK=2s": '"Env": ["CELLAR_MEMORY=auto", "CELLAR_LAME_DUCK=2s"]',
    'ENTRYPOINT ["/cellar"]': '"Entrypoint": ["/cellar"]',
    "STOPSIGNAL SIGTERM": '"StopSignal": "SIGTERM"',
}


def build():
    """What differs between the two images."""
    dockerfile = (ROOT / "Dockerfile").read_text()
    image = (ROOT / "packaging" / "forms" / "image").read_text()
    for line, other in SAME.items():
        if line not in dockerfile.splitlines():
            yield f"the Dockerfile has no line {line}"
        if other not in image:
            yield f"packaging/forms/image does not say {other}"


def container(cellar, variables, published):
    """What the server would refuse, and published ports on which nothing listens."""
    told = subprocess.run([cellar, "--print-config"], env=variables, capture_output=True, text=True)
    if told.returncode != 0:
        yield told.stderr.strip()
    for port in published:
        inner = port.rsplit(":", 1)[-1]
        if f'"0.0.0.0:{inner}"' not in told.stdout:
            yield f"port {inner} is published, and nothing listens on it"


def run(cellar, words):
    """A line `docker run`."""
    variables = dict(word.split("=", 1) for before, word in zip(words, words[1:]) if before == "--env")
    published = [word for before, word in zip(words, words[1:]) if before == "-p"]
    if not published:
        yield "no port is published"
    yield from container(cellar, variables, published)


def compose(cellar):
    """The file compose.yaml."""
    for name, service in yaml.safe_load((ROOT / "compose.yaml").read_text())["services"].items():
        variables = {}
        for key, value in service["environment"].items():
            wanted = re.fullmatch(r"\$\{(\w+):\?.*\}", value)
            if wanted and wanted[1] not in os.environ:
                yield f"{name}: {wanted[1]} is not set"
            variables[key] = os.environ.get(wanted[1], "") if wanted else value
        yield from container(cellar, variables, service["ports"])


def main():
    cellar, command, *words = sys.argv[1:]
    parts = {"build": build, "run": lambda: run(cellar, words), "compose": lambda: compose(cellar)}
    found = list(parts[command]())
    print("\n".join(found), end="")
    sys.exit(1 if found else 0)


main()
