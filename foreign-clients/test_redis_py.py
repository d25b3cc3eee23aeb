"""Cellar through redis-py: each test speaks RESP2 and RESP3.

foreign-clients/run starts the server and passes its port in RESP_PORT.
"""

import os
import threading
import time

import pytest
import redis
from redis.cache import CacheConfig
from redis.exceptions import DataError, LockNotOwnedError, ResponseError, WatchError

from servers import wait_until

PORT = int(os.environ["RESP_PORT"])


def connect(protocol, **options):
    return redis.Redis(
        port=PORT, protocol=protocol, decode_responses=True, socket_timeout=60, **options
    )


@pytest.fixture(params=[2, 3])
def protocol(request):
    return request.param


@pytest.fixture
def client(protocol):
    client = connect(protocol)
    client.flushall()
    yield client
    client.close()


def test_strings_are_stored_read_and_removed(client):
    assert client.set("key", "value") is True
    assert client.get("key") == "value"
    assert client.get("nothing") is None
    assert client.set("key", "other", nx=True) is None
    assert client.set("key", "other", xx=True, get=True) == "value"
    assert client.mset({"a": 1, "b": 2})
    assert client.mget("a", "b", "c") == ["1", "2", None]
    assert client.getdel("a") == "1"
    assert client.exists("a", "b") == 1
    assert client.append("key", "!") == 6
    assert client.getrange("key", 0, 2) == "oth"
    assert client.delete("key", "b", "c") == 2


def test_any_bytes_come_back(protocol):
    client = redis.Redis(port=PORT, protocol=protocol)
    value = bytes(range(256)) * 4000
    assert client.set(b"\x00\r\n", value)
    assert client.get(b"\x00\r\n") == value


def test_numbers_count(client):
    assert client.incr("n") == 1
    assert client.incrby("n", 41) == 42
    assert client.decr("n", 2) == 40
    assert client.incrbyfloat("f", 0.1) == 0.1
    assert client.incrbyfloat("f", 0.2) == 0.3
    client.set("text", "abc")
    with pytest.raises(ResponseError, match="value is not an integer or out of range"):
        client.incr("text")


def test_keys_expire_to_the_millisecond(client):
    client.set("short", "x", px=50)
    client.set("long", "x", ex=36_000)
    # A busy machine may take long until it asks.
    assert 35_000_000 < client.pttl("long") <= 36_000_000
    assert 35_000 <= client.ttl("long") <= 36_000
    assert client.ttl("nothing") == -2
    assert client.expire("long", 50, gt=True) is False
    assert client.persist("long") is True
    assert client.ttl("long") == -1
    wait_until("the item expires", lambda: client.get("short") is None)


def test_scan_finds_every_key_once(client):
    names = {f"key-{i}" for i in range(2_000)}
    with client.pipeline(transaction=False) as pipe:
        for name in names:
            pipe.set(name, name)
        pipe.execute()
    assert set(client.scan_iter(count=100)) == names
    assert set(client.scan_iter(match="key-19*")) == {n for n in names if n.startswith("key-19")}
    assert client.dbsize() == 2_000


def test_databases_are_apart(client, protocol):
    other = connect(protocol, db=3)
    client.set("key", "zero")
    other.set("key", "three")
    assert client.get("key") == "zero"
    other.flushdb()
    assert other.get("key") is None
    assert client.get("key") == "zero"


def test_a_pipeline_answers_in_order(client):
    with client.pipeline(transaction=False) as pipe:
        for i in range(1_000):
            pipe.set(f"k{i}", i).get(f"k{i}")
        replies = pipe.execute()
    assert replies[1::2] == [str(i) for i in range(1_000)]


def test_a_transaction_is_one_step_and_keeps_its_errors(client):
    client.set("text", "abc")
    with client.pipeline() as pipe:
        pipe.set("n", 1).incr("n").incr("text").get("n")
        replies = pipe.execute(raise_on_error=False)
    assert replies[:2] == [True, 2]
    assert isinstance(replies[2], ResponseError)
    assert replies[3] == "2"


def test_a_watched_key_that_changes_ends_the_transaction(client, protocol):
    other = connect(protocol)
    with client.pipeline() as pipe:
        pipe.watch("key")
        other.set("key", "changed")
        pipe.multi()
        pipe.set("key", "mine")
        with pytest.raises(WatchError):
            pipe.execute()
    assert client.get("key") == "changed"


def test_threads_that_watch_lose_no_update(client, protocol):
    client.set("sum", 0)

    def add(pipe):
        value = int(pipe.get("sum"))
        pipe.multi()
        pipe.set("sum", value + 1)

    def work():
        own = connect(protocol)
        for _ in range(50):
            own.transaction(add, "sum")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert client.get("sum") == "200"


def test_hashes_sets_and_sorted_sets(client):
    assert client.hset("h", mapping={"a": "1", "b": "2"}) == 2
    assert client.hgetall("h") == {"a": "1", "b": "2"}
    assert client.hincrby("h", "a", 4) == 5
    assert client.hmget("h", "a", "x") == ["5", None]
    assert dict(client.hscan_iter("h")) == {"a": "5", "b": "2"}
    assert client.hexpire("h", 36_000, "a", "x") == [1, -2]
    assert 0 < client.httl("h", "a")[0] <= 36_000
    assert client.sadd("s", "a", "b", "c") == 3
    assert client.smembers("s") == {"a", "b", "c"}
    assert client.sismember("s", "a")
    assert client.sinter("s", "s") == {"a", "b", "c"}
    assert client.zadd("z", {"one": 1, "two": 2.5}) == 2
    assert [list(pair) for pair in client.zrange("z", 0, -1, withscores=True)] == [
        ["one", 1.0],
        ["two", 2.5],
    ]
    assert client.zscore("z", "two") == 2.5
    assert client.zremrangebyscore("z", "-inf", 2) == 1
    with pytest.raises(ResponseError, match="WRONGTYPE"):
        client.get("h")


def test_messages_reach_subscribers(client, protocol):
    listener = connect(protocol).pubsub(ignore_subscribe_messages=True)
    listener.subscribe("news")
    listener.psubscribe("new*")
    wait_until("one client subscribes", lambda: client.pubsub_numsub("news") == [("news", 1)])
    wait_until("one pattern is subscribed to", lambda: client.pubsub_numpat() == 1)
    assert client.publish("news", "hello") == 2
    seen = []

    def take():
        message = listener.get_message(timeout=0.1)
        if message:
            seen.append((message["type"], message["data"]))
        return len(seen) == 2

    wait_until("both messages arrive", take)
    assert sorted(seen) == [("message", "hello"), ("pmessage", "hello")]
    listener.close()


def test_expiry_is_published_to_who_asked_for_it(client, protocol):
    client.config_set("notify-keyspace-events", "Ex")
    listener = connect(protocol).pubsub(ignore_subscribe_messages=True)
    listener.psubscribe("__keyevent@0__:expired")
    wait_until("one pattern is subscribed to", lambda: client.pubsub_numpat() == 1)
    client.set("short", "x", px=20)
    seen = []

    def take():
        client.get("short")
        message = listener.get_message(timeout=0.1)
        if message:
            seen.append(message["data"])
        return seen

    wait_until("the message about the expired key arrives", take)
    assert seen == ["short"]
    client.config_set("notify-keyspace-events", "")
    listener.close()


def test_a_lock_keeps_others_out_and_is_released_by_its_owner_only(client):
    lock = client.lock("lock", timeout=3600)
    assert lock.acquire(blocking=False)
    other = client.lock("lock", timeout=3600)
    assert not other.acquire(blocking=False)
    assert lock.extend(7200)
    assert client.pttl("lock") > 3_600_000
    assert lock.reacquire()
    client.set("lock", "somebody else")
    with pytest.raises(LockNotOwnedError):
        lock.release()
    client.delete("lock")
    assert other.acquire(blocking=False)
    other.release()
    assert client.get("lock") is None


def test_threads_with_a_lock_take_turns(client, protocol):
    client.set("sum", 0)

    def work():
        own = connect(protocol)
        for _ in range(20):
            with own.lock("turn", timeout=3600, sleep=0.001):
                own.set("sum", int(own.get("sum")) + 1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert client.get("sum") == "80"


def test_scripts_run_by_text_and_by_digest(client):
    script = client.register_script("return {KEYS[1], ARGV[1], redis.call('incr', KEYS[1])}")
    assert script(keys=["n"], args=["x"]) == ["n", "x", 1]
    assert script(keys=["n"], args=["x"]) == ["n", "x", 2]
    assert client.script_exists(script.sha) == [True]
    client.script_flush()
    assert script(keys=["n"], args=["x"]) == ["n", "x", 3]


def test_the_near_cache_is_invalidated_by_any_writer():
    near = connect(3, cache_config=CacheConfig(max_size=100))
    writer = connect(2)
    writer.flushall()
    writer.set("key", "one")
    assert near.get("key") == "one"
    assert near.get("key") == "one"
    assert near.get_cache().size == 1
    writer.set("key", "two")
    wait_until("the near cache has the new value", lambda: near.get("key") == "two")
    writer.delete("key")
    wait_until("the near cache drops the deleted key", lambda: near.get("key") is None)
    near.close()


def test_the_near_cache_is_invalidated_by_expiry_and_flush():
    near = connect(3, cache_config=CacheConfig(max_size=100))
    writer = connect(2)

    def has_a_copy():
        writer.set("short", "x", px=100)
        return near.get("short") == "x"

    # A busy machine may read it too late at first.
    wait_until("the near cache has a copy", has_a_copy)
    wait_until("the near cache drops the expired key", lambda: near.get("short") is None)
    writer.set("key", "x")
    assert near.get("key") == "x"
    writer.flushall()
    wait_until("the near cache drops a flushed key", lambda: near.get("key") is None)
    near.close()


def test_the_server_describes_itself(client):
    info = client.info()
    assert info["redis_version"] >= "7.4" and info["role"] == "master"
    assert info["loading"] == 0 and info["maxmemory"] > 0
    client.set("key", "x", ex=3600)
    assert client.info("keyspace")["db0"]["keys"] == 1
    assert client.config_get("save") == {"save": ""}
    assert client.command_count() == len(client.command())
    assert client.memory_usage("key") > 0
    assert client.client_id() > 0
    assert client.client_setname("me") and client.client_getname() == "me"
    assert any(one["name"] == "me" for one in client.client_list())
    assert client.slowlog_len() >= 0
    start = int(time.time())
    wait_until("TIME reaches the second in which it was asked", lambda: client.time()[0] >= start)
    assert client.time()[0] <= time.time()


def test_errors_do_not_break_the_connection(client):
    with pytest.raises(ResponseError, match="unknown command"):
        client.execute_command("NOSUCH", "x")
    with pytest.raises(ResponseError, match="wrong number of arguments"):
        client.execute_command("GET")
    with pytest.raises(DataError):
        client.set("key", None)
    assert client.ping()
