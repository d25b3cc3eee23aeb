"""Test suites of other servers, run against a Cellar: one function for each suite.

Each takes a checkout of the suite, a folder for its files and the units to run, and yields
(unit, results) as soon as a unit is done; results is a list of (test, outcome, detail). What a suite
cannot do with a server that somebody else started is changed in a copy of it below that folder.
Suites of clients are entries of client_suites.py.
"""

import os
import pathlib
import re
import shutil

import client_suites
from servers import free_port
from suite_runs import END, FAILED, OK, SKIPPED, run_to_the_end

FILE_SECONDS_MAX = 90
HERE = pathlib.Path(__file__).resolve().parent

VALKEY_UNITS = (
    "type/string type/incr type/hash type/set type/zset type/list type/list-2 type/list-3 "
    "hashexpire expire keyspace scan sort bitops bitfield hyperloglog geo dump multi scripting "
    "functions pubsub pubsubshard tracking pause introspection introspection-2 querybuf protocol "
    "info other slowlog commandlog latency-monitor lazyfree auth quit networking fuzzer limits"
).split()
VALKEY_FLAGS = (
    "--durable --ignore-encoding --ignore-digest --no-latency --clients 1 --timeout 300"
).split()
# Parameters that change nothing here are refused; the units that set them first would all stop.
VALKEY_CALL = '[srv $level "client"] {*}$args'
VALKEY_CALL_INSTEAD = """if {[string tolower [lrange $args 0 1]] eq "config set"} {
        if {[catch {%s} reply]} {
            if {[string match "*nothing depends on it*" $reply]} { return OK }
            error $reply $::errorInfo
        }
        return $reply
    }
    %s""" % (VALKEY_CALL, VALKEY_CALL)


def valkey(checkout, folder, units, start, left_out):
    """Valkey's units, or those of a server made from it; its programs are built already."""
    copy = folder / "valkey"
    copy.mkdir()
    shutil.copytree(checkout / "tests", copy / "tests")
    for name in ("src", "utils"):
        (copy / name).symlink_to(checkout / name)
    helper = copy / "tests" / "test_helper.tcl"
    before, after = helper.read_text().split("    " + VALKEY_CALL, 1)
    helper.write_text(before + "    " + VALKEY_CALL_INSTEAD + after)
    for unit in units or VALKEY_UNITS:
        skips = folder / "skips"
        skips.write_text("".join(name + "\n" for name in left_out(f"valkey/{unit}")))
        with start(["--enable-debug-commands", "--watchdog", "off"]) as server:
            command = ["tclsh", "tests/test_helper.tcl", "--host", "127.0.0.1"]
            command += ["--port", server.resp_port, "--single", f"unit/{unit}", *VALKEY_FLAGS]
            command += ["--baseport", free_port(), "--skipfile", skips]
            status, text = run_to_the_end(command, copy)
        yield f"valkey/{unit}", tcl_results(status, text)


def tcl_results(status, text):
    """What the suite in Tcl has printed, test by test."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", text).split("The following tests failed")[0]
    results = []
    for block in re.split(r"\n(?=\[)", text):
        if passed := re.match(r"\[ok\]: (.*) \(\d+ m?s\)", block):
            results.append((passed[1], OK, ""))
        elif failed := re.match(r"\[err\]: (.*?) in tests/unit/\S+\n?(.*)", block, re.DOTALL):
            results.append((failed[1], FAILED, failed[2]))
        elif stopped := re.match(r"\[exception\]: (.*)", block, re.DOTALL):
            results.append((END, FAILED, stopped[1]))
        elif out := re.match(r"\[(?:skip|ignore)\]: (.*)", block):
            results.append((out[1].split(": ")[0], SKIPPED, ""))
    if status is None and all(test != END for test, _, _ in results):
        results.append((END, FAILED, text[-500:]))
    return results


def tair(checkout, folder, _units, start, _left_out):
    """The compatibility test suite for Redis of Alibaba's Tair, all cases up to 7.2."""
    program = next(checkout.glob("*compatib*.py"))
    with start([]) as server:
        command = [python(checkout), program, "--testfile", checkout / "cts.json", "--show-failed"]
        command += ["--host", "127.0.0.1", "--port", server.resp_port]
        status, text = run_to_the_end([*command, "--specific-version", "7.2.0"], folder)
    reasons = dict(re.findall(r"FailedTest\(name='(.*?)', reason=(.*)\)", text))
    results = []
    for test, outcome in re.findall(r"test: (.*) (passed|failed|skipped)$", text, re.MULTILINE):
        if outcome == "skipped":
            results.append((test.removesuffix(" tags").removesuffix(" version"), SKIPPED, ""))
        else:
            results.append((test, OK if outcome == "passed" else FAILED, reasons.get(test, "")))
    yield "tair/7.2", results if status is not None else [*results, (END, FAILED, text[-500:])]


# Tests of how memcached's own source and documents are written.
MEMCACHED_OWN = {"line-lengths", "whitespace"}
# What would end a file at once, and changes nothing for the rest of it.
MEMCACHED_LINES = (
    ("binary.t", "$mc->stats('detail on');"),
    ("binary.t", "my %stats = $mc->stats('detail dump');"),
)


def memcached(checkout, folder, units, start, _left_out):
    """memcached's tests in Perl, with a Cellar wherever they start a memcached."""
    copy = folder / "memcached"
    copy.mkdir()
    shutil.copytree(checkout / "t", copy / "t")
    for name in ("memcached", "memcached-debug"):
        shutil.copy(HERE / "as_memcached", copy / name)
    timed = copy / "timedrun"
    timed.write_text('#!/bin/sh\nshift\nexec "$@"\n')
    timed.chmod(0o755)
    for file, line in MEMCACHED_LINES:
        path = copy / "t" / file
        path.write_text(path.read_text(errors="surrogateescape").replace(line, ""))
    files = {path.stem for path in (copy / "t").glob("*.t")} - MEMCACHED_OWN
    for unit in units or sorted(files):
        environment = os.environ | {"CELLAR": start.cellar, "PERL5LIB": str(copy / "t" / "lib")}
        command = ["perl", f"t/{unit}.t"]
        status, text = run_to_the_end(command, copy, FILE_SECONDS_MAX, env=environment)
        yield f"memcached/{unit}", tap_results(status, text)


def tap_results(status, text):
    """The lines of the Test Anything Protocol; a plan that was not kept is a failure, too."""
    if re.search(r"^1\.\.0 # ?skip", text, re.MULTILINE | re.IGNORECASE):
        return [("all", SKIPPED, text)]
    results = []
    for line in re.finditer(r"^(not )?ok (\d+)(?: - )?(.*)$", text, re.MULTILINE):
        name = f"{line[2]} {line[3]}".strip()
        if re.search(r"# (skip|todo)", name, re.IGNORECASE):
            results.append((name, SKIPPED, ""))
        else:
            after = text[line.end() : line.end() + 400].split("\nok ")[0]
            results.append((name, FAILED if line[1] else OK, after if line[1] else ""))
    plan = re.search(r"^1\.\.(\d+)", text, re.MULTILINE)
    if status is None or not plan or int(plan[1]) != len(results):
        results.append((END, FAILED, text[-500:]))
    return results


def python(checkout):
    """The interpreter of the environment in or beside the checkout, else that of the system."""
    for folder in (checkout / ".venv", checkout.parent / "venv", HERE.parent / ".tools" / "venv"):
        if (folder / "bin" / "python").exists():
            return folder / "bin" / "python"
    return "python3"


SUITES = {
    "valkey": valkey,
    "tair": tair,
    "memcached": memcached,
}
SUITES |= {name: client_suites.runner(name, client) for name, client in client_suites.CLIENTS.items()}
