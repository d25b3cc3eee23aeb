"""Runs the quick starts of docs/guide/quick-starts as a reader would, each in an empty folder.

A page has commands (`sh`), files (each names itself in a comment in its first line), and sessions
(`text`, behind `$ `) with their output. Nothing is replaced but ports, unlike in examples.py: the
packages are installed, and the programs are compiled. Beside the folders is `cellar`, the checkout
that some pages need; its part java/ is a copy, as Maven writes into it.

`first_tier` runs the Python page with the packages of .tools/venv, so nothing is installed.
"""

import re
import shutil
import subprocess

import examples

FOLDER = "docs/guide/quick-starts"
# Most lines in the blocks of a page: it is a start, not a guide.
LINES_MAX = 40
# A page may compile a client with all that it needs, on a busy machine.
PAGE_SECONDS_MAX = 3600
# The programs that a page needs.
NEEDS = {
    "python": ("python3",),
    "node": ("node", "npm"),
    "go": ("go",),
    "java": ("mvn", "javac"),
    "php": ("php",),
    "ruby": ("ruby",),
    "rust": ("cargo",),
    "cpp": ("make", "g++", "pkg-config"),
}
PREAMBLE = r"""
set -euo pipefail
sudo() { "$@"; }
"""
# The environment is the one that has the packages of the requirements; pip only looks at it.
WITH_OURS = r"""
python3() {{ [ "$*" = "-m venv venv" ] && ln -sfn {venv} venv; }}
export PIP_NO_INDEX=1 PIP_DISABLE_PIP_VERSION_CHECK=1
"""
NAMED = re.compile(r"(?:# |// |<!-- |<\?php // )(\S+\.\w+)(?: -->)?\n")


class QuickStart(examples.Examples):
    """A page; `preamble` comes before each command."""

    def __init__(self, root, binaries, python, folder, ports, preamble=PREAMBLE):
        shutil.rmtree(folder, ignore_errors=True)
        super().__init__(root, binaries, python, folder, ports)
        self.preamble = preamble
        # Nothing but ports is replaced.
        self.places = {}

    def outcomes(self, page, text):
        """Runs all blocks; yields (test, problem)."""
        lines = sum(body.count("\n") for _, body, _ in examples.blocks(text))
        problem = f"{lines} lines, at most {LINES_MAX - 1} are asked"
        yield f"{page}: fewer than {LINES_MAX} lines", problem if lines >= LINES_MAX else None
        for language, body, _ in examples.blocks(text):
            if language == "text":
                yield from self.session(page, body)
            elif language == "sh":
                for command in examples.commands(body):
                    yield examples.done(self.shell(page, command))
            else:
                yield from self.file(page, body)

    def shown(self, text):
        """The text as a terminal shows it."""
        return super().shown(re.sub(r"\x1b\[[0-9;]*m", "", text))

    def run(self, command):
        try:
            limit = PAGE_SECONDS_MAX
            return examples.output_of(command, cwd=self.folder, timeout=limit)
        except subprocess.TimeoutExpired as problem:
            return 1, f"it does not end: {problem}"

    def file(self, page, body):
        """Writes a file with the name in its first line."""
        first = NAMED.match(body)
        if first is None:
            yield f"{page}: {examples.first_line(body)}", "its first line does not name the file"
            return
        place = self.folder / first[1]
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(self.here(body))


def checkout(root, place):
    """A checkout for readers: links to all parts of this one, and a copy of java/."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    for part in root.iterdir():
        if part.name not in ("java", ".git", ".tools"):
            (place / part.name).symlink_to(part)
    shutil.copytree(root / "java", place / "java", ignore=shutil.ignore_patterns("target"))


def is_there(program):
    """Whether a program is installed; a Go before 1.21 cannot load the one that a client needs."""
    if program == "go" and shutil.which(program):
        return bool(examples.output_of(["go", "env", "GOTOOLCHAIN"])[1].strip())
    return shutil.which(program) is not None


def pages(root):
    """The pages by their names, without the list of them."""
    found = sorted((root / FOLDER).glob("*.md"))
    return {page.stem: page for page in found if page.stem != "README"}


def outcomes(root, binaries, python, folder, ports, skipped):
    """All pages; a page whose programs are missing is skipped."""
    checkout(root, folder / "cellar")
    found = pages(root)
    yield "each page has a row in NEEDS", None if set(found) == set(NEEDS) else f"{set(found)}"
    for name, page in found.items():
        missing = [program for program in NEEDS.get(name, ()) if not is_there(program)]
        if missing:
            yield f"{name}: {', '.join(missing)} not installed", skipped
            continue
        start = QuickStart(root, binaries, python, folder / name, ports)
        yield from start.outcomes(f"{FOLDER}/{name}.md", page.read_text())


def first_tier(root, binaries, python, folder, ports):
    """The Python page, with the packages that are there."""
    preamble = PREAMBLE + WITH_OURS.format(venv=python.parent.parent)
    start = QuickStart(root, binaries, python, folder / "python", ports, preamble)
    yield from start.outcomes(f"{FOLDER}/python.md", pages(root)["python"].read_text())
