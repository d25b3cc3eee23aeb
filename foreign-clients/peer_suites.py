"""Test suites of other servers and of clients, run against a Cellar: one function for each suite.

Each takes a checkout of the suite, a folder for its files and the units to run, and yields
(unit, results) as soon as a unit is done; results is a list of (test, outcome, detail). What a suite
cannot do with a server that somebody else started is changed in a copy of it below that folder.
"""

import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import xml.etree.ElementTree as ElementTree

from servers import free_port, output_of

OK, FAILED, SKIPPED = "ok", "failed", "skipped"
# What takes longer has not ended; files of memcached wait for ever for what is not there.
UNIT_SECONDS_MAX = 420
FILE_SECONDS_MAX = 90
# A result that stands for all tests which a unit did not come to.
END = "(its end)"
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
            ended, text = run_to_the_end(command, copy)
        yield f"valkey/{unit}", tcl_results(ended, text)


def tcl_results(ended, text):
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
    if not ended and all(test != END for test, _, _ in results):
        results.append((END, FAILED, text[-500:]))
    return results


def tair(checkout, folder, _units, start, _left_out):
    """The compatibility test suite for Redis of Alibaba's Tair, all cases up to 7.2."""
    program = next(checkout.glob("*compatib*.py"))
    with start([]) as server:
        command = [python(checkout), program, "--testfile", checkout / "cts.json", "--show-failed"]
        command += ["--host", "127.0.0.1", "--port", server.resp_port]
        ended, text = run_to_the_end([*command, "--specific-version", "7.2.0"], folder)
    reasons = dict(re.findall(r"FailedTest\(name='(.*?)', reason=(.*)\)", text))
    results = []
    for test, outcome in re.findall(r"test: (.*) (passed|failed|skipped)$", text, re.MULTILINE):
        if outcome == "skipped":
            results.append((test.removesuffix(" tags").removesuffix(" version"), SKIPPED, ""))
        else:
            results.append((test, OK if outcome == "passed" else FAILED, reasons.get(test, "")))
    yield "tair/7.2", results if ended else [*results, (END, FAILED, text[-500:])]


REDIS_PY_UNITS = (
    "test_commands test_asyncio/test_commands test_pipeline test_asyncio/test_pipeline test_pubsub "
    "test_asyncio/test_pubsub test_scripting test_asyncio/test_scripting test_function test_hash "
    "test_asyncio/test_hash test_lock test_asyncio/test_lock test_monitor "
    "test_asyncio/test_monitor test_cache test_connection_pool test_asyncio/test_connection_pool "
    "test_connection test_asyncio/test_connection test_encoding test_asyncio/test_encoding "
    "test_keyspace_notifications test_multiprocessing"
).split()


def redis_py(checkout, folder, units, start, left_out):
    """redis-py's tests of commands and connections, for one server, blocking and asyncio."""
    for unit in units or REDIS_PY_UNITS:
        report = folder / "report.xml"
        report.unlink(missing_ok=True)
        with start(["--enable-debug-commands"]) as server:
            url = f"redis://127.0.0.1:{server.resp_port}"
            command = [python(checkout), "-m", "pytest", "-q", "-p", "no:cacheprovider"]
            command += [f"tests/{unit}.py", "--redis-url", f"{url}/0", "--redis-mod-url", url]
            for test in left_out(f"redis-py/{unit}"):
                command += ["--deselect", f"tests/{unit}.py::{test}"]
            command += ["-m", "not onlycluster and not redismod and not ssl and not cp_integration"]
            ended, text = run_to_the_end([*command, f"--junitxml={report}"], checkout)
        results = junit_results(report) if report.exists() else []
        if not ended or not results:
            results.append((END, FAILED, text[-1500:]))
        yield f"redis-py/{unit}", results


def junit_results(report):
    """The cases of a report in JUnit's form, each by its class and name."""
    results = []
    for case in ElementTree.parse(report).iter("testcase"):
        outer = case.get("classname", "").split(".")
        name = "::".join([part for part in outer if part.startswith("Test")] + [case.get("name")])
        found = [case.find(kind) for kind in ("failure", "error")]
        wrong = [element for element in found if element is not None]
        if wrong:
            results.append((name, FAILED, wrong[0].get("message") or wrong[0].text or ""))
        else:
            skipped = case.find("skipped") is not None
            results.append((name, SKIPPED if skipped else OK, ""))
    return results


# What needs modules, certificates or servers of another kind.
GO_SKIPS = (
    r"(?i)sentinel|failover|cluster|\bring\b|RediSearch|FT\.HYBRID|JSON|TimeSeries|probabilistic|bloom|"
    r"vector ?set|\bTLS\b|command tips"
)


def go_redis(checkout, folder, _units, start, _left_out):
    """go-redis's tests in Ginkgo that need one server."""
    copy = folder / "go-redis"
    shutil.copytree(checkout, copy, ignore=shutil.ignore_patterns(".git"))
    report = folder / "ginkgo.xml"
    with start(["--enable-debug-commands"]) as server:
        for file in copy.glob("*_test.go"):
            text = file.read_text()
            changed = re.sub(r'(?<=[":])6379(?=")', str(server.resp_port), text)
            if changed != text:
                file.write_text(changed)
        environment = os.environ | {"RE_CLUSTER": "true", "REDIS_VERSION": "7.4"}
        command = ["go", "test", ".", "-run", "TestGinkgoSuite", "-timeout", f"{UNIT_SECONDS_MAX}s"]
        command += ["-args", f"-ginkgo.junit-report={report}", f"-ginkgo.skip={GO_SKIPS}"]
        ended, text = run_to_the_end(command, copy, env=environment)
    results = junit_results(report) if report.exists() else []
    results = [(re.sub(r"^\[It\] ", "", test), *rest) for test, *rest in results]
    if not ended or not results:
        results.append((END, FAILED, text[-1500:]))
    yield "go-redis/ginkgo", results


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
        ended, text = run_to_the_end(command, copy, FILE_SECONDS_MAX, env=environment)
        yield f"memcached/{unit}", tap_results(ended, text)


def tap_results(ended, text):
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
    if not ended or not plan or int(plan[1]) != len(results):
        results.append((END, FAILED, text[-500:]))
    return results


def python(checkout):
    """The interpreter of the environment in or beside the checkout, else that of the system."""
    for folder in (checkout / ".venv", checkout.parent / "venv", HERE.parent / ".tools" / "venv"):
        if (folder / "bin" / "python").exists():
            return folder / "bin" / "python"
    return "python3"


def run_to_the_end(command, folder, seconds_max=UNIT_SECONDS_MAX, **options):
    """Whether the command ended in time, and what it has printed; what it has left behind ends."""
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
        is_ended = process.poll() is not None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        output.seek(0)
        return is_ended, output.read()


SUITES = {
    "valkey": valkey,
    "tair": tair,
    "redis-py": redis_py,
    "go-redis": go_redis,
    "memcached": memcached,
}
