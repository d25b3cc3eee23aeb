"""Debian's packages: downloaded and unpacked into .tools/daemons, and not installed.

No service of the machine starts and no file of it changes. While rows run, the unpacked files are
seen in /usr and /etc, by overlays in a mount namespace of this program alone. Packages that the
machine has installed are used as they are. Both need root, as apt-get's lock does.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
PLACE = ROOT / ".tools" / "daemons"
FILES, ARCHIVES, VERSIONS = PLACE / "root", PLACE / "archives", PLACE / "versions.json"
# Debian's scripts of installation make users; here a line is all that they are.
USERS = ("postfix", "dovecot", "dovenull", "freerad", "opendkim", "gearman", "rspamd")
GROUPS = ("postdrop",)
USER_NUMBER = 64000
# What no program needs to run.
LEFT_OUT = ("./usr/share/doc", "./usr/share/man", "./usr/share/locale", "./usr/include")


def printed(command):
    """What a command of Debian's prints; empty if there is no such command."""
    if not shutil.which(command[0]):
        return ""
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False).stdout


def installed():
    """The packages that the machine has, with their versions."""
    lines = printed(["dpkg-query", "-W", "-f", "${db:Status-Abbrev} ${Package} ${Version}\\n"])
    rows = [line.split() for line in lines.splitlines()]
    return {row[1]: row[2] for row in rows if row[0] == "ii"}


def unpacked():
    """The packages that were unpacked, with their versions."""
    return json.loads(VERSIONS.read_text()) if VERSIONS.exists() else {}


def versions():
    """All packages that rows can use."""
    return installed() | unpacked()


def missing(names):
    """The packages of these that are neither installed nor unpacked, nor known to be nowhere."""
    there = versions()
    nowhere = PLACE / "nowhere"
    gone = nowhere.read_text().split() if nowhere.exists() else []
    return [name for name in names if name not in there and name not in gone]


def why_not():
    """Why rows cannot run here; None if they can."""
    tools = [tool for tool in ("apt-get", "dpkg-deb", "unshare") if not shutil.which(tool)]
    if tools:
        return f"{', '.join(tools)} not installed"
    if os.getuid() != 0:
        return "needs root, to mount overlays of its own"
    if {"/usr", "/etc"} & set(map(str, PLACE.parents)):
        return f"{PLACE} would be below its own mount point"
    namespace = subprocess.run(["unshare", "--mount", "true"], stderr=subprocess.DEVNULL)
    return None if namespace.returncode == 0 else "mount namespaces are not allowed here"


def unpack(names):
    """Downloads and unpacks packages and what they depend on."""
    known = set(re.findall(r"^(\S+):$", printed(["apt-cache", "policy", *names]), re.M))
    (ARCHIVES / "partial").mkdir(parents=True, exist_ok=True)
    (PLACE / "nowhere").write_text("".join(f"{name}\n" for name in names if name not in known))
    wanted = sorted(known & set(names))
    if not download(wanted):
        subprocess.run(["apt-get", "update", "-qq"], stdout=subprocess.DEVNULL, check=True)
        if not download(wanted):
            raise RuntimeError("apt-get could not download the packages of rows")
    found = unpacked()
    for archive in sorted(ARCHIVES.glob("*.deb")):
        extract(archive)
        name, version = printed(["dpkg-deb", "-W", archive]).split("\t")
        found[name] = version.strip()
        archive.unlink()
    VERSIONS.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")


def download(names):
    """Whether packages are there; those that exclude each other are downloaded apart."""
    command = ["apt-get", "install", "--download-only", "-y", "-qq", "--no-install-recommends"]
    command += ["-o", f"Dir::Cache::archives={ARCHIVES}", *names]
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    if not names or subprocess.run(command, check=False, **silent).returncode == 0:
        return True
    half = len(names) // 2
    return half > 0 and download(names[:half]) and download(names[half:])


def extract(archive):
    """The files of a package; /lib and the like are links to /usr, as on the machine."""
    for name in ("bin", "sbin", "lib", "lib64"):
        (FILES / "usr" / name).mkdir(parents=True, exist_ok=True)
        if not (FILES / name).is_symlink():
            (FILES / name).symlink_to(f"usr/{name}")
    (FILES / "etc").mkdir(exist_ok=True)
    with subprocess.Popen(
        ["dpkg-deb", "--fsys-tarfile", archive], stdout=subprocess.PIPE
    ) as contents:
        left_out = [f"--exclude={path}" for path in LEFT_OUT]
        unpack = ["tar", "-x", "--keep-directory-symlink", "-C", FILES, *left_out]
        subprocess.run(unpack, stdin=contents.stdout, check=True)


def mount():
    """Shows the unpacked files in /usr and /etc; in this process's mount namespace."""
    overlay = ["mount", "-t", "overlay", "overlay", "-o"]
    if not FILES.exists():
        FILES.joinpath("usr").mkdir(parents=True)
        FILES.joinpath("etc").mkdir()
    subprocess.run([*overlay, f"lowerdir={FILES}/usr:/usr", "/usr"], check=True)
    changes = PLACE / "changes"
    changes.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", changes], check=True)
    for name in ("files", "work"):
        (changes / name).mkdir()
    layers = f"lowerdir={FILES}/etc:/etc,upperdir={changes}/files,workdir={changes}/work"
    subprocess.run([*overlay, layers, "/etc"], check=True)
    with open("/etc/passwd", "a") as users, open("/etc/group", "a") as groups:
        for number, name in enumerate((*USERS, *GROUPS), USER_NUMBER):
            groups.write(f"{name}:x:{number}:\n")
            if name in USERS:
                users.write(f"{name}:x:{number}:{number}::/nonexistent:/usr/sbin/nologin\n")
