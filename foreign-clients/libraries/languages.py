"""How programs of each language are installed, compiled and started, and what pins their versions."""

import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import tomllib

HERE = pathlib.Path(__file__).resolve().parent
TOOLS = HERE.parents[1] / ".tools" / "libraries"
INSTALL_SECONDS_MAX = 1500


class Language:
    """A folder with a table of libraries, and packages that Debian has."""

    suffix = ""
    runtime = ""

    def __init__(self, name):
        self.name = name
        self.folder = HERE / name
        self.place = TOOLS / name

    @property
    def table(self):
        file = self.folder / "libraries.toml"
        return tomllib.loads(file.read_text()) if file.exists() else {}

    @property
    def libraries(self):
        return [
            {"name": name} | row for name, row in self.table.items() if isinstance(row, dict)
        ]

    def pins(self):
        """The versions that are pinned, by package."""
        return dict(pairs(self.folder / "packages.txt"))

    def debian_packages(self, libraries):
        """The packages of Debian that the libraries need."""
        packages = self.table.get("packages", [])
        packages = packages + [library.get("package", library["name"]) for library in libraries]
        return list(dict.fromkeys(packages))

    def prepare(self, libraries):
        """Installs and compiles what the libraries need; nothing where all is there."""
        debian(self.debian_packages(libraries))

    def command(self, library):
        """The command that runs a library's program, and its environment."""
        program = library.get("program", library["name"].lower().replace(" ", "_"))
        return [self.runtime, self.folder / f"{program}{self.suffix}"], {}


class Php(Language):
    suffix = ".php"
    runtime = "php"


class Ruby(Language):
    suffix = ".rb"
    runtime = "ruby"


class Perl(Language):
    suffix = ".pl"
    runtime = "perl"


class Lua(Language):
    suffix = ".lua"
    runtime = "lua5.1"


class C(Language):
    """Programs in C and C++, each compiled with what pkg-config or its row says."""

    def prepare(self, libraries):
        super().prepare(libraries)
        self.place.mkdir(parents=True, exist_ok=True)
        for library in libraries:
            source = self.folder / library["source"]
            compiler = ["g++", "-std=c++17"] if source.suffix == ".cc" else ["cc"]
            binary = self.binary(library)
            if not stale(binary, [source, *self.folder.glob("*.h")]):
                continue
            finished([*compiler, "-O1", "-Wall", source, "-o", binary, *library["flags"]])

    def command(self, library):
        return [self.binary(library)], {}

    def binary(self, library):
        return self.place / library.get("binary", pathlib.Path(library["source"]).stem)


class Erlang(Language):
    suffix = ".escript"
    runtime = "escript"


class Python(Language):
    """Programs with an environment of their own; groups have one each, where pins collide."""

    def groups(self):
        return {
            file.stem.removeprefix("requirements").strip("-"): file
            for file in sorted(self.folder.glob("requirements*.txt"))
        }

    def pins(self):
        """By the library's name, as groups may differ in versions."""
        found = {}
        for group, file in self.groups().items():
            versions = dict(re.findall(r"^([\w.-]+)==(\S+)", file.read_text(), re.M))
            versions = {plain(name): version for name, version in versions.items()}
            for library in self.libraries:
                package = library.get("package", library["name"])
                if library.get("group", "") == group and plain(package) in versions:
                    found[package] = versions[plain(package)]
        return found

    def debian_packages(self, libraries):
        is_compiled = any(row.get("package", row["name"]) == "pylibmc" for row in libraries)
        return ["libmemcached-dev", "zlib1g-dev"] if is_compiled else []

    def prepare(self, libraries):
        debian(self.debian_packages(libraries))
        for group, file in self.groups().items():
            wanted = [row for row in libraries if row.get("group", "") == group]
            names = [row.get("package", row["name"]) for row in wanted]
            names += [name for row in wanted for name in row.get("with", [])]
            if names:
                self.install(self.place / (group or "main"), file, sorted(set(names)))

    def install(self, venv, pinned, names):
        """Installs packages, with what they need in the versions that are pinned."""
        there = venv / "installed.txt"
        key = hashlib.sha256(pinned.read_bytes()).hexdigest()
        lines = there.read_text().split() if there.exists() else [""]
        have = set(lines[1:]) if lines[0] == key else set()
        if have >= set(names):
            return
        if not venv.exists():
            finished(["python3", "-m", "venv", venv])
        pip = [venv / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check"]
        finished([*pip, "--constraint", pinned, *names])
        there.write_text("\n".join([key, *sorted(have | set(names))]))

    def command(self, library):
        program = library.get("program", library["name"].replace("-", "_").replace(".", "_"))
        venv = self.place / (library.get("group") or "main")
        return [venv / "bin" / "python", self.folder / f"{program}.py"], {}


class Packaged(Language):
    """A language whose own tool installs all that its libraries need."""

    def debian_packages(self, libraries):
        return []


class Node(Packaged):
    """Programs beside one node_modules."""

    def pins(self):
        return json.loads((self.folder / "package.json").read_text())["dependencies"]

    def prepare(self, libraries):
        lock = self.folder / "package-lock.json"
        installed = self.place / "installed.json"
        self.place.mkdir(parents=True, exist_ok=True)
        if not installed.exists() or installed.read_bytes() != lock.read_bytes():
            for file in (self.folder / "package.json", lock):
                shutil.copy(file, self.place)
            flags = ["--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--legacy-peer-deps"]
            # Not `ci`: it wants modules for all platforms in the lock, of which a registry may have
            # those of one.
            finished(["npm", "install", "--prefix", self.place, *flags])
            shutil.copy(lock, installed)
        # A module in the new form is looked for beside the program that imports it alone.
        for program in self.folder.glob("*.cjs"):
            shutil.copy(program, self.place)

    def command(self, library):
        program = re.sub(r"\W+", "_", library.get("program", library["name"])).strip("_")
        return ["node", self.place / f"{program}.cjs"], {"NODE_NO_WARNINGS": "1"}


class Go(Packaged):
    """One program that takes the library's name; a smaller one of what compiles in seconds."""

    def pins(self):
        pattern = r"^(?:require)?\s+(\S+) v(\S+)"
        return dict(re.findall(pattern, (self.folder / "go.mod").read_text(), re.M))

    def prepare(self, libraries):
        quick = all(library.get("quick") for library in libraries)
        self.binary = self.place / ("quick" if quick else "programs")
        if stale(self.binary, [*self.folder.glob("*.go"), self.folder / "go.mod"]):
            self.place.mkdir(parents=True, exist_ok=True)
            tags = ["-tags", "quick"] if quick else []
            finished(["go", "-C", self.folder, "build", *tags, "-o", self.binary, "."])

    def command(self, library):
        return [self.binary, library["name"]], {}


class Rust(Packaged):
    """One program that takes the library's name."""

    def pins(self):
        manifest = tomllib.loads((self.folder / "Cargo.toml").read_text())["dependencies"]
        return {
            name: (row if isinstance(row, str) else row["version"]).lstrip("=")
            for name, row in manifest.items()
        }

    def prepare(self, libraries):
        manifest = ["--manifest-path", self.folder / "Cargo.toml", "--target-dir", self.place]
        finished(["cargo", "build", "--quiet", "--locked", *manifest])

    def command(self, library):
        return [self.place / "debug" / "programs", library["name"]], {}


class Java(Packaged):
    """One jar's worth of classes; each library's is named in its row."""

    def pins(self):
        text = (self.folder / "pom.xml").read_text()
        pattern = r"<artifactId>([^<]+)</artifactId>\s*<version>([^<]+)</version>"
        return dict(re.findall(pattern, text))

    def prepare(self, libraries):
        sources = [*self.folder.rglob("*.java"), self.folder / "pom.xml"]
        stamp = self.place / "classpath.txt"
        if not stale(stamp, sources):
            return
        self.place.mkdir(parents=True, exist_ok=True)
        flags = ["-q", "-B", "-Dmaven.wagon.http.retryHandler.count=3", f"-Dplace={self.place}"]
        goals = ["compile", "dependency:build-classpath", f"-Dmdep.outputFile={stamp}"]
        finished(["mvn", *flags, "-f", self.folder, *goals])

    def command(self, library):
        classpath = f"{self.place / 'classes'}:{(self.place / 'classpath.txt').read_text()}"
        flags = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto"]
        return ["java", *flags, "-cp", classpath, f"libraries.{library['class']}"], {}


def plain(package):
    """A Python package's name as the index compares it."""
    return re.sub(r"[-_.]+", "-", package).lower()


def pairs(file):
    """The lines `name version` of a file."""
    lines = file.read_text().splitlines() if file.exists() else []
    return (line.split() for line in lines if line and not line.startswith("#"))


def stale(made, sources):
    """Whether a file is missing or older than one of its sources."""
    if not made.exists():
        return True
    return any(source.stat().st_mtime > made.stat().st_mtime for source in sources)


def debian(packages):
    """Installs packages of Debian that are missing."""
    missing = missing_of(packages)
    if missing:
        as_root = [] if os.geteuid() == 0 else ["sudo"]
        options = ["install", "-y", "-qq", "--no-install-recommends"]
        quiet = ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", *options]
        finished([*as_root, *quiet, *missing])


def missing_of(packages):
    """Those packages of Debian that are not installed; none where there is no dpkg."""
    if not packages or not shutil.which("dpkg-query"):
        return []
    query = ["dpkg-query", "-W", "-f", "${Package} ${Status}\n", *packages]
    lines = subprocess.run(query, capture_output=True, text=True, check=False).stdout.splitlines()
    return [name for name in packages if f"{name} install ok installed" not in lines]


def finished(command):
    """Runs a command that has to succeed."""
    done = subprocess.run(
        [str(part) for part in command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=INSTALL_SECONDS_MAX,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]} ended with {done.returncode}:\n{done.stdout[-3000:]}")


ALL = (
    Python("python"),
    Node("node"),
    Java("java"),
    Go("go"),
    Php("php"),
    Ruby("ruby"),
    C("c"),
    Rust("rust"),
    Perl("perl"),
    Lua("lua"),
    Erlang("erlang"),
)
