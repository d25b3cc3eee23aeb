"""Test suites of clients: one entry for each, with how to install, run and read it.

A suite runs twice, each time in a network namespace of its own: first against the real servers, then
against Cellar under their names. A test that fails on the real server needs something that this
machine does not have (a cluster, a module, certificates) and is not counted. PATH begins with a
folder in which `redis-server` and `memcached` start the server of this run.
"""

import contextlib
import os
import pathlib
import re
import shutil
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from typing import Callable, NamedTuple

from suite_runs import END, FAILED, OK, SKIPPED, run_to_the_end

HERE = pathlib.Path(__file__).resolve().parent
INSTALL_SECONDS_MAX = 1500
REDIS = "redis-server --port 6379 --enable-debug-command yes --save ''"
MEMCACHED = "memcached -p 11211"


class Client(NamedTuple):
    """The suite of a client. `install` and `run` are lines for bash, run in the checkout.

    `install` runs until it has succeeded once. `run` gets the unit as $UNIT and leaves its report in
    the folder $REPORT, or prints it; `read` makes (test, outcome, detail) of that folder and text.
    `part` tells which tests of the suite these are; a cluster, Sentinel, modules and TLS are left out.
    """

    install: str
    run: str
    read: Callable
    servers: tuple = (REDIS,)
    units: tuple = ("all",)
    seconds_max: int = 900
    part: str = "all tests"


def runner(name, client):
    """The function that runs the suite, as peer_suites.py has one for each suite."""

    def run(checkout, folder, units, start, _left_out):
        install(checkout, client)
        for unit in units or client.units:
            real = dict_of(run_once(client, checkout, folder, unit, start.real))
            tests = run_once(client, checkout, folder, unit, start.stand_ins())
            # What the real server does not pass is as good as skipped, but not a run without results.
            yield (
                f"{name}/{unit}",
                [
                    (test, SKIPPED if test != END and real.get(test) == FAILED else outcome, detail)
                    for test, outcome, detail in tests
                ],
            )

    return run


def dict_of(results):
    """The outcome of each test; one that ran more than once has failed if it failed once."""
    outcomes = {}
    for test, outcome, _ in results:
        if outcomes.get(test) != FAILED:
            outcomes[test] = outcome
    return outcomes


def install(checkout, client):
    """Installs what the suite needs below its checkout, once."""
    done = checkout / ".installed-for-cellar"
    if done.exists():
        return
    command = ["bash", "-euc", client.install]
    code, text = run_to_the_end(command, checkout, INSTALL_SECONDS_MAX)
    if code != 0:
        sys.exit(f"{checkout.name} cannot be installed:\n{text[-3000:]}")
    done.touch()


def run_once(client, checkout, folder, unit, programs):
    """The unit's results against the servers that these programs start."""
    logs = pathlib.Path(tempfile.mkdtemp(prefix="run-", dir=folder))
    report = logs / "report"
    report.mkdir()
    programs_folder = logs / "bin"
    programs_folder.mkdir()
    for name, script in programs.items():
        path = programs_folder / name
        path.write_text(f"#!/bin/sh\nexec {script} \"$@\"\n")
        path.chmod(0o755)
    environment = os.environ | {
        "PATH": f"{programs_folder}:{os.environ['PATH']}",
        "REPORT": str(report),
        "UNIT": unit,
    }
    command = ["unshare", "--map-root-user", "--net", sys.executable, HERE / "in_namespace.py"]
    command += ["--logs", logs]
    for server in client.servers:
        command += ["--server", server]
    command += ["--", "bash", "-c", client.run]
    code, text = run_to_the_end(command, checkout, client.seconds_max, env=environment)
    (logs / "output").write_text(text)
    results = client.read(report, text)
    bad = logs / "ended-badly"
    if bad.exists():
        results.append((END, FAILED, bad.read_text()))
    elif code is None or not results:
        results.append((END, FAILED, text[-1500:]))
    if keep := os.environ.get("SUITES_KEEP"):
        shutil.copytree(logs, pathlib.Path(keep) / f"{checkout.name}-{logs.name}", symlinks=True)
    return results


def junit(report, _text):
    """Cases of reports in JUnit's form, by class and name."""
    results = []
    for case in cases(report):
        outer = case.get("classname", "").split(".")[-1]
        results.append((f"{outer}::{case.get('name')}", *outcome_of(case)))
    return results


def cases(report):
    """The cases of all reports in the folder; one that was cut off has none."""
    for file in sorted(report.rglob("*.xml")):
        with contextlib.suppress(ElementTree.ParseError):
            yield from ElementTree.parse(file).iter("testcase")


def outcome_of(case):
    """The outcome and the message of a case in JUnit's form."""
    found = [case.find(kind) for kind in ("failure", "error")]
    wrong = [element for element in found if element is not None]
    if wrong:
        return FAILED, wrong[0].get("message") or wrong[0].text or ""
    return SKIPPED if case.find("skipped") is not None else OK, ""


def pytest(report, _text):
    """Cases of pytest's report, without the module before a class's name."""
    results = []
    for case in cases(report):
        outer = case.get("classname", "").split(".")
        name = "::".join([part for part in outer if part.startswith("Test")] + [case.get("name", "")])
        results.append((name, *outcome_of(case)))
    return results


def ginkgo(report, _text):
    """Cases of Ginkgo's report, by their whole names."""
    return [
        (re.sub(r"^\[It\] ", "", case.get("name")), *outcome_of(case))
        for case in cases(report)
    ]


def mocha(report, _text):
    """Cases of mocha's xunit report, by the titles of their groups."""
    return [
        (f"{case.get('classname')} {case.get('name')}", *outcome_of(case)) for case in cases(report)
    ]


def cargo(_report, text):
    """The lines of `cargo test`, by the test's path."""
    kinds = {"ok": OK, "FAILED": FAILED, "ignored": SKIPPED}
    details = dict(re.findall(r"^---- (\S+) stdout ----\n(.*?)(?=^---- |\Z)", text, re.M | re.S))
    return [
        (test, kinds[outcome], details.get(test, "") if outcome == "FAILED" else "")
        for test, outcome in re.findall(
            r"^test (\S+)(?: - should panic)? \.\.\. (?:.*?)(ok|FAILED|ignored)\b", text, re.M
        )
    ]


def go(_report, text):
    """The lines of `go test -v`, by the test's path."""
    kinds = {"PASS": OK, "FAIL": FAILED, "SKIP": SKIPPED}
    return [
        (test, kinds[outcome], "")
        for outcome, test in re.findall(r"^\s*--- (PASS|FAIL|SKIP): (.*) \(", text, re.M)
    ]


def tap(_report, text):
    """The lines of the Test Anything Protocol that are not indented, by their names."""
    return [
        (name, FAILED if wrong else OK, "")
        for wrong, name in re.findall(r"^(not )?ok \d+ - (.*?)(?: # time=.*)?(?: \{)?$", text, re.M)
    ]


REDIS_PY_UNITS = (
    "test_commands test_asyncio/test_commands test_pipeline test_asyncio/test_pipeline test_pubsub "
    "test_asyncio/test_pubsub test_scripting test_asyncio/test_scripting test_function test_hash "
    "test_asyncio/test_hash test_lock test_asyncio/test_lock test_monitor "
    "test_asyncio/test_monitor test_cache test_connection_pool test_asyncio/test_connection_pool "
    "test_connection test_asyncio/test_connection test_encoding test_asyncio/test_encoding "
    "test_keyspace_notifications test_multiprocessing"
).split()
CELERY_UNITS = (
    "test_tasks.py test_inspect.py test_canvas.py::test_chain test_canvas.py::test_group "
    "test_canvas.py::test_chord"
).split()
GLIDE_UNITS = (
    "sync_tests/test_sync_client sync_tests/test_sync_batch sync_tests/test_sync_scan "
    "sync_tests/test_sync_client_side_cache sync_tests/test_sync_pubsub sync_tests/test_sync_pool "
    "async_tests/test_async_client async_tests/test_batch async_tests/test_scan "
    "async_tests/test_client_side_cache async_tests/test_pubsub async_tests/test_async_pool"
).split()
# What needs modules, certificates or servers of another kind.
GO_SKIPS = (
    r"(?i)sentinel|failover|cluster|\bring\b|RediSearch|FT\.HYBRID|JSON|TimeSeries|probabilistic|bloom|"
    r"vector ?set|\bTLS\b|command tips"
)
VENV = "test -d .venv || python3 -m venv .venv; .venv/bin/pip install -q "
PYTEST = ".venv/bin/python -m pytest -q -p no:cacheprovider --junitxml=$REPORT/pytest.xml "
MAVEN = "rm -rf target/*-reports; mvn -q -o -B -Dmaven.test.failure.ignore "
# The plugin of its own choice loses the process that runs the tests.
SPY_TESTS = (
    "test-compile org.apache.maven.plugins:maven-surefire-plugin:3.5.6:test -Dmaven.compiler.source=8"
    " -Dmaven.compiler.target=8 -Dmaven.test.redirectTestOutputToFile=true"
)
# A newer compiler finds calls in its tests ambiguous.
JAVA_7 = "-Dmaven.javadoc.skip=true -Dmaven.compiler.source=7 -Dmaven.compiler.target=7"
COLLECT = "; cp target/*-reports/TEST-*.xml $REPORT"
JEDIS_TESTS = (
    "redis.clients.jedis.commands.jedis.*CommandsTest,PipeliningTest,TransactionV2Test,JedisTest"
)
# Versions of what its tests use, and the check of Maven's own version.
SPRING = "-Denforcer.skip -Dwebbeans=4.0.3 -Dmicrometer=1.16.0 -Dmicrometer-tracing=1.6.0"
SPRING_TESTS = "*Tests,!*UnitTests,!*Cluster*,!*Sentinel*"
LETTUCE_TESTS = ",".join(
    f"**/core/{part}*IntegrationTests" for part in ("", "commands/**/", "dynamic/", "pubsub/", "support/**/")
)
FRED = "cargo test --features i-std,transactions,monitor,metrics --test lib"
REDIS_RS = (
    "cargo test --locked -p redis --features tokio-comp,connection-manager,cache-aio --test test_basic"
    " --test test_async --test test_cache --test test_script --test test_types --test test_acl"
    " --test test_geospatial --test test_bignum"
)

# One of the steps of its long test reads a stream, and waits for ever without one. What stands for
# clusters in the compatibility's tests is a single server; tests of clusters are left out.
RUEIDIS = """
sed -i 's/testBlockingXREAD, //; s/127.0.0.1:6355/127.0.0.1:6356/' redis_test.go
sed -i 's/127.0.0.1:70[01][0-9]/127.0.0.1:6378/' rueidiscompat/adapter_test.go
case $UNIT in
client) go test -v -count=1 -timeout 400s -run "^(TestSingleClient.*Integration|TestNegative)" . ;;
compat)
    cd rueidiscompat
    go test -count=1 -timeout 800s -run '^TestAdapter$' . -args \
        -ginkgo.junit-report=$REPORT/ginkgo.xml "-ginkgo.skip=(?i)cluster|RediSearch"
    ;;
*) cd rueidis$UNIT && go test -v -count=1 -timeout 400s . ;;
esac
"""

REDISSON_INSTALL = r"""
# Java 17 instead of 25, without dependencies that are not public.
sed -i '/<module>redisson-/d; s/\(<maven.compiler.test[A-Za-z]*>\)25/\117/' pom.xml
perl -0pi -e 's#<dependency>((?!</dependency>).)*<artifactId>(jmockit|jackson-dataformat-(msgpack|ion|avro))'\
'</artifactId>.*?</dependency>##gs; s#<argLine>.*?</argLine>##; s#<forkCount>6#<forkCount>1#' \
    pom.xml redisson/pom.xml
rm -f redisson/src/main/java/org/redisson/codec/{MsgPack,Avro,Ion}Jackson*Codec.java
(
    cd redisson/src/test/java/org/redisson
    grep -rl mockit . | xargs rm -f
    rm -f Redisson{,Codec,LiveObjectService,TopicPattern,Reference,ReferenceReactive}Test.java
    # paced: the suite's own sleeps, in the form that Java 17 has.
    sed -i 's/Thread.sleep(\(Duration.of[A-Za-z]*([0-9]*)\))/Thread.sleep(\1.toMillis())/' *.java
    sed -i 's/currentThread().threadId()/currentThread().getId()/' *.java
    perl -0pi -e 's#\@Test\s+public void testLambdaOptimizationByJVM.*?\n    \}\n##s' RedissonTopicTest.java
    # Every container is the server of this run.
    perl -pi -e 's#(createContainerByImage\(String imageName, String\.\.\. params\) \{)#$1 if (true) '\
'return new GenericContainer(imageName) { public void start() {} public void stop() {} public Integer '\
'getFirstMappedPort() { return 6379; } };#' RedisDockerTest.java
)
mvn -q -B test-compile surefire:test $OPTIONS -Dtest=RedissonAtomicLongTest -Dmaven.test.failure.ignore
"""
REDISSON_OPTIONS = "-pl redisson -Denforcer.skip -Dmaven.test.skip=false -DargLine="
REDISSON_TESTS = {
    "objects": "Map Set ScoredSortedSet List Queue Bucket Buckets AtomicLong HyperLogLog Geo BitSet Script",
    "locks": "Lock FairLock SpinLock FencedLock MultiLock",
    "semaphores": "ReadWriteLock Semaphore PermitExpirableSemaphore CountDownLatch",
    "limits": "RateLimiter Topic",
    "caches": "MapCache SetCache",
    "local-caches": "LocalCachedMap",
}

CLIENTS = {
    "redis-py": Client(
        install=VENV + "-r dev_requirements.txt -e .",
        run=PYTEST + "tests/$UNIT.py --redis-url redis://127.0.0.1:6379/0"
        " --redis-mod-url redis://127.0.0.1:6379"
        " -m 'not onlycluster and not redismod and not ssl and not cp_integration'",
        read=pytest,
        units=REDIS_PY_UNITS,
        part="commands, pipelines, publish and subscribe, scripts, locks, near cache and"
        " connections, both synchronous and asyncio",
    ),
    "go-redis": Client(
        install="go test -count=1 -run NONE .",
        run="RE_CLUSTER=true REDIS_VERSION=8.0 go test . -run TestGinkgoSuite -timeout 880s"
        f" -args -ginkgo.junit-report=$REPORT/ginkgo.xml '-ginkgo.skip={GO_SKIPS}'",
        read=ginkgo,
        units=("ginkgo",),
        part="all tests of the root package that one server can answer",
    ),
    "rueidis": Client(
        install="for part in . rueidis{lock,aside,compat};"
        " do (cd $part; go test -count=1 -run NONE .); done",
        run=RUEIDIS,
        read=lambda report, text: ginkgo(report, text) or go(report, text),
        # Its compatibility with go-redis asks a server for each version and each protocol.
        servers=tuple(REDIS.replace("6379", port) for port in "6379 6378 6356 6381 6382".split()),
        units=("client", "compat", "lock", "aside"),
        part="one server in RESP2 and RESP3, the compatibility with go-redis, locks, cache-aside",
    ),
    "node-redis": Client(
        install="npm ci --no-audit --no-fund; npx tsc --build",
        run="cd packages/client; echo '{\"standalone\": {\"tls\": false, \"endpoints\":"
        ' ["redis://127.0.0.1:6379"]}}\' >$REPORT/endpoints.json;'
        " export RE_CLUSTER=true REDIS_ENDPOINTS_CONFIG_PATH=$REPORT/endpoints.json;"
        " npx mocha --no-config -r tsx --exit --timeout 20000 --reporter xunit"
        " --reporter-option output=$REPORT/mocha.xml 'lib/commands/*.spec.ts'",
        read=mocha,
        part="commands of the package `client`",
    ),
    "ioredis": Client(
        install="npm ci --no-audit --no-fund",
        run="TS_NODE_TRANSPILE_ONLY=true NODE_ENV=test npx mocha --no-experimental-strip-types --exit"
        " --reporter xunit --reporter-option output=$REPORT/mocha.xml"
        " 'test/helpers/*.ts' 'test/functional/*.ts'",
        read=mocha,
        part="`test/functional` and `test/helpers`",
    ),
    "jedis": Client(
        # One test runs, so that Maven has all that the others need without a network.
        install="mvn -q -B test -DexcludedGroupsForUnitTests=none -Dtest=HostAndPortTest",
        run=MAVEN + f"test -DexcludedGroupsForUnitTests=none '-Dtest={JEDIS_TESTS}'" + COLLECT,
        read=junit,
        servers=(f"{REDIS} --requirepass foobared",),
        part="commands, pipelines and transactions of `Jedis`",
    ),
    "lettuce": Client(
        # One test runs, without a server, so that Maven has what runs tests.
        install="mvn -q -B test-compile -Dmaven.gitcommitid.skip; mvn -q -B failsafe:integration-test"
        " -DskipITs=false -Dit.test=SocketOptionsIntegrationTests",
        run=MAVEN + f"failsafe:integration-test -DskipITs=false '-Dit.test={LETTUCE_TESTS}'" + COLLECT,
        read=junit,
        servers=(REDIS.replace("6379", "6479"),),
        seconds_max=1200,
        part="commands, connections, publish and subscribe, with one server",
    ),
    "redis-rs": Client(
        install=f"{REDIS_RS} --no-run",
        # One at a time: a test that fails takes those beside it, or the next, along.
        run=f"{REDIS_RS} --offline --no-fail-fast -- --test-threads 1",
        read=cargo,
        servers=(),
        part="commands, asynchronous connections with Tokio, near cache, scripts, geospatial"
        " indexes, ACL",
    ),
    "fred": Client(
        install=f"{FRED} --no-run",
        run="export FRED_REDIS_CENTRALIZED_HOST=127.0.0.1 REDIS_USERNAME=default REDIS_PASSWORD=bar;"
        # A name that no host has takes minutes without a network.
        f" {FRED} --offline --no-fail-fast -- --test-threads 1 --skip bad_host centralized",
        read=cargo,
        servers=(f"{REDIS} --requirepass bar",),
        part="all tests with one server",
    ),
    "celery": Client(
        install=VENV + "-r requirements/test.txt -r requirements/default.txt -e .[redis]"
        " pytest-rerunfailures",
        # Some tests of errors in chords wait for minutes until nothing more comes.
        run="TEST_BROKER=redis:// TEST_BACKEND=redis:// " + PYTEST + "t/integration/$UNIT"
        " -k 'not header_link_error and not error_cb_on_chord_header and not header_errback_enabled'",
        read=pytest,
        units=CELERY_UNITS,
        seconds_max=1500,
        part="tasks, inspection, chains, groups and chords, with Redis as broker and result store",
    ),
    "valkey-glide": Client(
        install=VENV + "valkey-glide valkey-glide-sync -r python/dev_requirements.txt",
        # `addopts` leaves out publish and subscribe. Some tests start servers in a way of their own.
        run="cd python; " + PYTEST.replace(".venv", "../.venv") + "tests/$UNIT.py -o addopts="
        " --timeout=60 --async-backend asyncio --standalone-endpoints=127.0.0.1:6379"
        " -k 'not migrate_success and not failover and not non_covered_slots'",
        read=pytest,
        units=GLIDE_UNITS,
        part="the Python clients, both synchronous and asyncio, with one server",
    ),
    "redisson": Client(
        install=REDISSON_INSTALL.replace("$OPTIONS", REDISSON_OPTIONS),
        run="rm -rf redisson/target/*-reports; case $UNIT in "
        + "".join(
            f"{unit}) tests={','.join(f'Redisson{name}Test' for name in names.split())} ;; "
            for unit, names in REDISSON_TESTS.items()
        )
        # The reports of the classes that ran remain if the time is up.
        + "esac; timeout 1400 mvn -q -o -B -Dmaven.test.failure.ignore surefire:test"
        + f" {REDISSON_OPTIONS} -Dtest=$tests"
        "; cp redisson/target/*-reports/TEST-*.xml $REPORT",
        read=junit,
        units=tuple(REDISSON_TESTS),
        seconds_max=1500,
        part="objects, locks, semaphores, limits and caches with one server, on Java 17 instead of 25",
    ),
    "spring-data-redis": Client(
        # One test runs, without a server, so that Maven has what runs tests.
        install=f"rm -rf .mvn; mvn -q -B test-compile surefire:test {SPRING} -Dtest=RedisNodeUnitTests",
        run=MAVEN + f"surefire:test {SPRING} '-Dtest={SPRING_TESTS}'" + COLLECT,
        read=junit,
        seconds_max=1500,
        part="integration tests with Lettuce and Jedis, with one server",
    ),
    "pymemcache": Client(
        install=VENV + "-r test-requirements.txt -e .",
        run=PYTEST + "-o addopts= -m integration pymemcache/test --server 127.0.0.1 --port 11211",
        read=pytest,
        servers=(MEMCACHED,),
        part="integration tests",
    ),
    "pylibmc": Client(
        install=VENV + "pytest setuptools .",
        run=PYTEST + "tests",
        read=pytest,
        servers=(MEMCACHED,),
    ),
    "aiomcache": Client(
        install=VENV + "pytest pytest-asyncio pytest-cov docker-py python-memcached -e .",
        run=PYTEST + "-o addopts= -o filterwarnings= -o asyncio_default_fixture_loop_scope=function"
        " tests",
        read=pytest,
        servers=(MEMCACHED,),
    ),
    "emcache": Client(
        install=VENV + "pytest==8.2.2 pytest-mock pytest-asyncio==0.23.8 emcache",
        run="cp -r tests $REPORT/; cd $REPORT; "
        + PYTEST.replace(".venv", "$OLDPWD/.venv")
        + "tests/acceptance -o asyncio_mode=auto -k 'not unix_client'",
        read=pytest,
        servers=(MEMCACHED, "memcached -p 11212"),
        part="acceptance tests",
    ),
    "bmemcached": Client(
        install=VENV + "'pytest<8' mock pytest-cov trustme -e .",
        run=PYTEST + "test",
        read=pytest,
        servers=(),
    ),
    "memjs": Client(
        install="npm install --no-audit --no-fund --ignore-scripts",
        run="for test in test/*.js; do node $test; done",
        read=tap,
        servers=(MEMCACHED,),
    ),
    "xmemcached": Client(
        # One test runs, so that Maven has what runs tests.
        install="mvn -q -B verify -Dtest=None -Dit.test=AddrUtilTest -DfailIfNoTests=false " + JAVA_7,
        run=MAVEN + "verify -Dtest=None -DfailIfNoTests=false " + JAVA_7 + COLLECT,
        read=junit,
        servers=(MEMCACHED,),
        part="integration tests",
    ),
    "spymemcached": Client(
        install=f"mvn -q -B {SPY_TESTS} -Dtest=StringUtilsTest",
        run=MAVEN + SPY_TESTS + COLLECT,
        read=junit,
        servers=(MEMCACHED,),
    ),
}
