"""Tries the examples of a page in Markdown and compares what they print with what the page shows.

Every fenced block is tried, in order, in one folder; a block that nobody could try is a failure:

  text    begins with `$ `: commands, each with its output; else the output of the block before it
  sh      commands without their output; one that ends with ` &` runs until the page has been tried
  python  a program
  rust    compiled by the tests of a crate that includes the page; this is checked
  java, yaml, properties, xml of a cache
          stands word for word in a file below java/, which is compiled and tested; this is checked
  xml, kotlin
          what a build names is a module of java/ with this version; this is checked
  others, and yaml
          a file, whose name stands in its first line behind a `#`; a later example has to name it

`...` in an output stands for anything. Ports are exchanged for those of the servers under test, and
back in the output. `cellar` is the one that was built, `make` only tells whether it would know what
to do, and so does a `cellar` with settings.
"""

import glob
import os
import pathlib
import re
import shlex
import shutil
import subprocess

from servers import STOP_SECONDS_MAX, accepts, free_port, output_of, wait_until

EXAMPLE_SECONDS_MAX = 120
JAVA = "java"
# Languages whose blocks are run or compared, and never written as files.
CHECKED = {"text", "sh", "python", "rust", "java", "properties", "kotlin", "xml"}

# How an example differs from what is typed: redis-cli shows what it shows on a terminal, and has no
# port to guess; settings are read, but no second server is started in the foreground.
PREAMBLE = r"""
set -o pipefail
PATH={binaries}:$PATH
redis-cli() {{ command redis-cli --no-raw -p {resp} "$@"; }}
# The suite java_client builds the modules; here it matters that each of them is there.
mvn() {{
    local project options="$*"
    options=${{options#*--projects }}
    for project in $(tr , ' ' <<<"${{options%% *}}"); do
        case "$project" in
            :*) grep --quiet "<artifactId>${{project#:}}</artifactId>" {root}/java/pom.xml ;;
            *) test -e {root}/java/"$project"/pom.xml ;;
        esac || {{ echo "java/ has no $project"; return 1; }}
    done
}}
make() {{ command make --directory={root} --just-print "$@" >/dev/null; }}
cellar() {{
    case " $* " in
        " top "*) command cellar top --target http://127.0.0.1:{http} "${{@:2}}" ;;
        " migrate "*) command cellar "$@" ;;
        " healthcheck ") command cellar healthcheck --target http=127.0.0.1:{http} ;;
        " doctor "*) command cellar "$@" >/dev/null || [ $? = 1 ] ;;
        *" hash-password "* | *" --print-config "* | *" --help "* | *" --version "*) command cellar "$@" ;;
        *) command cellar "$@" --print-config >/dev/null ;;
    esac
}}
sudo() {{ "$@"; }}
# Who is not root gives nothing away.
install() {{ [ "$(id -u)" = 0 ] || set -- "${{@/--owner=*/--verbose}}"; command install "$@"; }}
# Packages and images are tried by packaging/test, by the same lines.
dpkg() {{ test -x {root}/packaging/forms/deb; }}
rpm() {{ test -x {root}/packaging/forms/rpm; }}
podman() {{ test -x {root}/packaging/forms/image; }}
docker() {{ {python} {root}/foreign-clients/containers.py {cellar} "$@"; }}
# The chart has a test of its own.
helm() {{ test -e "$3/Chart.yaml"; }}
# What a cluster would refuse in a pod, and what the server makes of its variables.
kubectl() {{ {python} {root}/foreign-clients/pods.py {cellar} "${{@: -1}}"; }}
# Only looks at the unit, with what is changed of it, if systemd is installed; nothing of it needs to
# run. What it does not know in there it only tells of.
systemctl() {{
    [ -d etc/systemd/system ] && command -v systemd-analyze >/dev/null || return 0
    local name="${{@: -1}}" units=etc/systemd/system program="$PWD/usr/local/bin/cellar" unit told
    case "$1" in
        enable) ;;
        restart)
            [ -d "etc/systemd/system/$name.service.d" ] || return 0
            units={root}/deploy/systemd program={cellar}
            ;;
        *) return 0 ;;
    esac
    unit="$PWD/checked/$name.service"
    mkdir -p checked
    sed "s,/usr/local/bin/cellar,$program,; s,/etc/cellar/cellar,$PWD&," "$units"/*.service >"$unit"
    [ ! -d "etc/systemd/system/$name.service.d" ] || cp -r "etc/systemd/system/$name.service.d" checked/
    told=$(systemd-analyze verify "$unit" 2>&1) || {{ echo "$told"; return 1; }}
    ! grep --fixed-strings "$PWD/checked/" <<<"$told" || return 1
    systemd-analyze security --offline=true --threshold={exposure} "$unit"
}}
"""
# Ten times what systemd-analyze calls the exposure of a service; Debian's redis-server has 12.
EXPOSURE_MAX = 15


def sections(page):
    """The page's parts by their headings of second level, with what stands before the first."""
    parts = re.split(r"^## (.*)$", page, flags=re.M)
    return {"": parts[0], **dict(zip(parts[1::2], parts[2::2]))}


def blocks(text):
    """The fenced blocks: language, lines, and whether the output follows without a word between."""
    found = list(re.finditer(r"^```(\w*)[^\n]*\n(.*?)^```$", text, re.M | re.S))
    for this, after in zip(found, [*found[1:], None]):
        joined = after is not None and not text[this.end() : after.start()].strip()
        joined = joined and after.group(1) == "text" and not after.group(2).startswith("$ ")
        yield this.group(1), this.group(2), joined


def commands(body):
    """The commands of a block: a line is one, with the lines that it goes on in."""
    return re.findall(r"(?:[^\n]*\\\n)*[^\n]+\n", body)


def session_parts(body):
    """The commands of a session, each with its output."""
    return re.split(r"^\$ ", body, flags=re.M)[1:]


def count(text):
    """How many tests `try_all` makes of a text."""
    total, is_output = 0, False
    for language, body, joined in blocks(text):
        if language == "text":
            total += 0 if is_output else len(session_parts(body)) or 1
        elif language == "sh":
            total += len(commands(body))
        elif not is_file(language, body):
            total += 1
        is_output = joined
    return total


class Examples:
    """Tries pages; `ports` has for each port that they show the one to use."""

    def __init__(self, root, binaries, python, folder, ports):
        self.root, self.python, self.folder, self.ports = root, python, folder, dict(ports)
        folder.mkdir(parents=True, exist_ok=True)
        here = self.ports.get
        self.preamble = PREAMBLE.format(
            root=shlex.quote(str(root)),
            binaries=f"{binaries}:{python.parent}",
            resp=here(6379, 6379),
            http=here(8080, 8080),
            python=shlex.quote(str(python)),
            cellar=shlex.quote(f"{binaries}/cellar"),
            exposure=EXPOSURE_MAX,
        )
        # What a page keeps in memory, gone with the page.
        self.in_memory = f"/dev/shm/guide-{os.getpid()}-{folder.name}-"
        # Where a page means the repository, or the system.
        self.places = {
            "target/release/": f"{binaries}/",
            "deploy/": f"{root}/deploy/",
            "/usr/local/": f"{folder}/usr/local/",
            "/etc/": f"{folder}/etc/",
            "/dev/shm/": self.in_memory,
        }
        self.files = {}
        self.named = set()
        self.running = []

    def here(self, text):
        """The text with the ports and places of this machine."""
        for shown, here in self.places.items():
            text = re.sub(rf"(?<=\s){re.escape(shown)}", here, text)
        return re.sub(
            r"\b\d{4,5}\b", lambda found: str(self.ports.get(int(found[0]), found[0])), text
        )

    def shown(self, text):
        """The text with the ports of the page."""
        for shown, here in self.ports.items():
            text = re.sub(rf"(?<=:){here}\b", str(shown), text)
        return text.replace("\r\n", "\n")

    def try_all(self, page, text):
        """Tries all blocks of a text of the page; yields (test, problem)."""
        pending = None
        for language, body, joined in blocks(text):
            if language == "text" and pending is not None:
                name, code, output = pending
                pending = None
                yield name, self.compared(output, body, code)
            elif language == "text":
                yield from self.session(page, body)
            elif language == "sh":
                *before, last = commands(body)
                for command in before:
                    yield done(self.shell(page, command))
                pending = self.shell(page, last)
            elif language == "python":
                pending = self.program(page, body)
            elif language == "rust":
                yield f"{page}: {first_line(body)}", self.included_by_a_crate(page)
            elif language in ("java", "properties") or is_part_of_java(language, body):
                yield f"{page}: {first_line(body)}", self.stands_below_java(body)
            elif language in ("kotlin", "xml"):
                yield f"{page}: {first_line(body)}", self.names_modules(body)
            else:
                yield from self.file(page, body)
            if pending is not None and not joined:
                yield done(pending)
                pending = None

    def session(self, page, body):
        """Commands behind `$ `, and below each its output."""
        if not body.startswith("$ "):
            yield f"{page}: {first_line(body)}", "it is no session and follows no example"
            return
        for part in session_parts(body):
            command, expected = re.match(r"((?:[^\n]*\\\n)*[^\n]*\n?)(.*)\Z", part, re.S).groups()
            name, code, output = self.shell(page, command)
            yield name, self.compared(output, expected, code)

    def shell(self, page, command):
        """Runs commands; one that ends with ` &` goes on running."""
        self.note(command)
        name = f"{page}: {first_line(command)}"
        here = self.here(command.strip())
        if here.endswith(" &"):
            problem = self.start(here[:-2])
            return (name, 0, "") if problem is None else (name, 1, problem)
        code, output = self.run(["bash", "-c", f"{self.preamble}\n{here}"])
        return name, code, output

    def program(self, page, body):
        self.note(body)
        code, output = self.run([self.python, "-c", self.here(body)])
        return f"{page}: Python, {first_line(body)}", code, output

    def run(self, command):
        try:
            return output_of(command, cwd=self.folder, timeout=EXAMPLE_SECONDS_MAX)
        except subprocess.TimeoutExpired as problem:
            return 1, f"it does not end: {problem}"

    def start(self, command):
        """Starts a command that goes on; waits for the ports that it or its files name."""
        words = shlex.split(command)
        log = self.folder / f"{pathlib.Path(words[0]).name}-{len(self.running)}.log"
        with open(log, "w") as file:
            script = f"{self.preamble}\nunset -f cellar\nexec {command}"
            process = subprocess.Popen(
                ["bash", "-c", script], cwd=self.folder, stdout=file, stderr=file
            )
        self.running.append(process)
        text = command + "".join(self.files.get(word, "") for word in words)
        awaited = [port for port in self.ports.values() if re.search(rf"\b{port}\b", text)]

        def starts_or_leaves():
            return process.poll() is not None or all(accepts(port) for port in awaited)

        try:
            wait_until(f"{command} accepts connections", starts_or_leaves)
        except TimeoutError as problem:
            return f"{problem}:\n{log.read_text()}"
        return None if process.poll() is None else f"it does not start:\n{log.read_text()}"

    def close(self):
        """Ends what was started, by its process."""
        for process in reversed(self.running):
            process.terminate()
        for process in self.running:
            process.wait(STOP_SECONDS_MAX)
        self.running.clear()
        for place in glob.glob(f"{glob.escape(self.in_memory)}*"):
            shutil.rmtree(place)

    def unused(self):
        """The files that no example has named."""
        for name in sorted(set(self.files) - self.named):
            yield f"{name} is used", "no example names this file"

    def note(self, text):
        """Remembers which files examples name."""
        self.named.update(name for name in self.files if name in text)

    def file(self, page, body):
        """A block that is a file: written into the folder under the name in its first line."""
        first = re.match(r"# (\S+\.\w+)\n", body)
        if first is None:
            yield f"{page}: {first_line(body)}", "nobody tries this block"
            return
        name = first.group(1)
        self.files[name] = self.here(body)
        (self.folder / name).write_text(self.files[name])

    def compared(self, output, expected, code):
        """Whether the output is the one shown, in which `...` stands for anything."""
        output = self.shown(output).strip("\n")
        expected = expected.strip("\n")
        pattern = r"(?s:.*)".join(re.escape(part) for part in expected.split("..."))
        if re.fullmatch(pattern, output):
            return None
        return f"exit {code}, expected:\n{expected}\nfound:\n{output}"

    def included_by_a_crate(self, page):
        named = f'include_str!("../../../{page}")'
        crates = self.root.glob("crates/*/src/lib.rs")
        if any(named in crate.read_text() for crate in crates):
            return None
        return f"no crate has {named}, so nobody compiles it"

    def stands_below_java(self, body):
        wanted = "".join(body.split())
        files = (file for file in (self.root / JAVA).rglob("src/**/*") if file.is_file())
        if any(wanted in "".join(file.read_text().split()) for file in files):
            return None
        return f"it stands in no file below {JAVA}/"

    def names_modules(self, body):
        """Whether each module of ours that a build names is one, in its version."""
        poms = [pom.read_text() for pom in (self.root / JAVA).glob("*/pom.xml")]
        named = re.findall(r'"cellar:([\w-]+):([\w.]+)"', body)
        plain = "".join(body.split())
        named += re.findall(
            r"<groupId>cellar</groupId><artifactId>([\w-]+)</artifactId><version>([\w.]+)<", plain
        )
        for artifact, version in named:
            wanted = f"<artifactId>{artifact}</artifactId>\n"
            if not any(wanted in pom and f"<version>{version}</version>" in pom for pom in poms):
                return f"there is no module {artifact} {version} below {JAVA}/"
        return None if named else "it names no module"


def is_part_of_java(language, body):
    """Whether it is YAML that no example uses as a file, or sets a cache up."""
    if language == "xml":
        return body.startswith("<memcached>")
    return language == "yaml" and not re.match(r"# (\S+\.\w+)\n", body)


def is_file(language, body):
    """Whether it is a file that an example may name."""
    return language not in CHECKED and re.match(r"# (\S+\.\w+)\n", body) is not None


def done(outcome):
    """The test of an example whose output is not shown."""
    name, code, output = outcome
    return name, None if code == 0 else f"exit {code}:\n{output}"


def first_line(text):
    """A name for an example."""
    line = text.strip().split("\n", 1)[0]
    return line if len(line) <= 70 else line[:67] + "..."


def new_ports(*shown):
    """A free port for each that a page shows, no two the same."""
    return {port: free_port() for port in shown}
