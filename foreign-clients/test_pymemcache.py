"""Cellar through pymemcache: each test runs with a plain, a pooled and a hashing client.

foreign-clients/run starts the server and passes its port in CACHE_PORT.
"""

import concurrent.futures
import os
import socket
import threading
import time

import pytest
from pymemcache.client.base import Client, PooledClient
from pymemcache.client.hash import HashClient
from pymemcache.exceptions import (
    MemcacheClientError,
    MemcacheIllegalInputError,
    MemcacheServerError,
)
from pymemcache.serde import CompressedSerde, PickleSerde, pickle_serde

from servers import wait_until

ADDRESS = ("127.0.0.1", int(os.environ["CACHE_PORT"]))


def connect(kind, **options):
    options = {"connect_timeout": 60, "timeout": 60, **options}
    if kind == "hash":
        return HashClient([ADDRESS], **options)
    return {"plain": Client, "pooled": PooledClient}[kind](ADDRESS, **options)


@pytest.fixture(params=["plain", "pooled", "hash"])
def kind(request):
    return request.param


@pytest.fixture
def client(kind):
    client = connect(kind, default_noreply=False)
    client.flush_all()
    yield client
    client.close()


@pytest.fixture
def plain():
    """For tests that wait: how long does not depend on the kind of client."""
    client = connect("plain", default_noreply=False)
    client.flush_all()
    yield client
    client.close()


def wait_until_gone(client, key):
    """Waits until `key` is a miss."""
    wait_until(f"{key} is a miss", lambda: client.get(key) is None)


def test_a_stored_value_is_read_back(client):
    assert client.set("key", b"value") is True
    assert client.get("key") == b"value"
    assert client.get("absent") is None
    assert client.get("absent", "default") == "default"


def test_an_empty_value_is_a_hit(client):
    client.set("empty", b"")
    assert client.get("empty") == b""


def test_any_bytes_travel_unchanged(client):
    value = bytes(range(256)) * 4 + b"\r\nEND\r\nVALUE key 0 1\r\n"
    client.set("bytes", value)
    assert client.get("bytes") == value


def test_add_and_replace_depend_on_presence(client):
    assert client.replace("key", b"1") is False
    assert client.add("key", b"1") is True
    assert client.add("key", b"2") is False
    assert client.replace("key", b"3") is True
    assert client.get("key") == b"3"


def test_append_and_prepend_extend_a_value(client):
    assert client.append("key", b"x") is False
    client.set("key", b"middle")
    assert client.append("key", b"-end") is True
    assert client.prepend("key", b"start-") is True
    assert client.get("key") == b"start-middle-end"


def test_cas_stores_only_over_the_version_it_saw(client):
    client.set("key", b"1")
    value, version = client.gets("key")
    assert value == b"1"
    assert client.cas("key", b"2", version) is True
    assert client.cas("key", b"3", version) is False
    assert client.cas("absent", b"4", version) is None
    assert client.get("key") == b"2"


def test_every_change_gives_a_new_version(client):
    client.set("key", b"1")
    versions = [client.gets("key")[1]]
    for change in (
        lambda: client.set("key", b"2"),
        lambda: client.append("key", b"0"),
        lambda: client.incr("key", 5),
        lambda: client.set("key", b"2"),
    ):
        change()
        versions.append(client.gets("key")[1])
    assert len(set(versions)) == len(versions)


def test_gets_of_a_miss_has_no_version(client):
    assert client.gets("absent") == (None, None)


def test_incr_and_decr_count(client):
    assert client.incr("n", 1) is None
    client.set("n", b"10")
    assert client.incr("n", 5) == 15
    assert client.decr("n", 6) == 9
    assert client.decr("n", 100) == 0


def test_incr_wraps_at_64_bits(client):
    client.set("n", b"18446744073709551615")
    assert client.incr("n", 1) == 0


def test_incr_of_a_text_is_a_client_error(client):
    client.set("text", b"abc")
    with pytest.raises(MemcacheClientError):
        client.incr("text", 1)
    assert client.get("text") == b"abc"


def test_delete_tells_whether_there_was_an_item(client):
    client.set("key", b"1")
    assert client.delete("key") is True
    assert client.delete("key") is False
    assert client.get("key") is None


def test_many_keys_travel_in_one_request(client):
    values = {f"many-{i}": b"%d" % i for i in range(300)}
    assert client.set_many(values) == []
    assert client.get_many([*values, "absent"]) == values
    found = client.gets_many(list(values)[:10])
    assert {key: value for key, (value, _) in found.items()} == dict(list(values.items())[:10])
    assert client.delete_many(list(values)[:100])
    assert len(client.get_many(list(values))) == 200


def test_flags_come_back_as_stored(kind):
    class Flags:
        """Reads the flags together with the value."""

        def serialize(self, key, value):
            return value, 0

        def deserialize(self, key, value, flags):
            return value, flags

    client = connect(kind, default_noreply=False, serde=Flags())
    for flags in (0, 1, 0xFFFF, 0xFFFFFFFF):
        raw = socket.create_connection(ADDRESS, timeout=60)
        raw.sendall(b"set flags %d 0 1\r\nv\r\n" % flags)
        assert raw.recv(64) == b"STORED\r\n"
        raw.close()
        assert client.get("flags") == (b"v", flags)
    client.close()


@pytest.mark.parametrize("serde", [pickle_serde, PickleSerde(2), CompressedSerde()])
def test_objects_survive_their_serializer(kind, serde):
    client = connect(kind, default_noreply=False, serde=serde)
    for value in ("text \u00e9\u4e2d", 42, {"a": [1, 2, {"b": None}]}, b"raw", "long " * 1000):
        client.set("object", value)
        assert client.get("object") == value
    client.close()


def test_requests_without_reply_take_effect_in_order(kind):
    client = connect(kind, default_noreply=True)
    for i in range(500):
        client.set("quiet", b"%d" % i)
    client.incr("quiet", 1, noreply=True)
    client.append("quiet", b"0")
    client.add("quiet", b"no")
    client.touch("quiet", 100)
    client.delete("other")
    assert client.get("quiet") == b"5000"
    client.close()


def test_an_expired_item_is_a_miss_and_not_before(plain):

    def is_stored():
        return plain.set("brief", b"1", expire=1) and plain.get("brief") == b"1"

    # A busy machine may ask too late at first, and a server that counts in whole seconds may be up to
    # one second early.
    wait_until("an item with a short time to live is a hit", is_stored)
    wait_until_gone(plain, "brief")


def test_touch_moves_the_end(plain):
    assert plain.touch("absent", 10) is False

    def is_touched_in_time():
        return plain.set("key", b"1", expire=1) and plain.touch("key", 3600)

    # A busy machine may touch it too late at first.
    wait_until("an item with a short time to live is touched", is_touched_in_time)
    plain.set("other", b"1", expire=3600)
    assert plain.touch("other", 1) is True
    wait_until_gone(plain, "other")
    assert plain.get("key") == b"1"


def test_a_time_in_the_past_stores_nothing_readable(client):
    client.set("past", b"1", expire=-1)
    assert client.get("past") is None


def test_a_unix_time_is_a_time_and_not_a_length(plain):
    plain.set("until", b"1", expire=int(time.time()) + 3600)
    assert plain.get("until") == b"1"
    plain.set("until", b"1", expire=int(time.time()) + 1)
    wait_until_gone(plain, "until")


@pytest.mark.parametrize("size", [15_000, 16_384, 70_000, 300_000, 1_000_000])
def test_large_values_travel_unchanged(client, size):
    value = os.urandom(size)
    client.set("large", value)
    assert client.get("large") == value
    assert client.get_many(["large", "absent"]) == {"large": value}


def test_a_value_over_the_limit_is_refused_and_removes_the_old_one(client):
    client.set("huge", b"old")
    with pytest.raises(MemcacheServerError):
        client.set("huge", b"x" * (4 << 20))
    assert client.get("huge") is None
    assert client.set("huge", b"new") is True


def test_keys_reach_their_full_length(client):
    key = "k" * 250
    client.set(key, b"1")
    assert client.get(key) == b"1"
    with pytest.raises(MemcacheIllegalInputError):
        client.get(key + "k")


def test_unicode_keys_need_leave_and_travel(kind):
    strict = connect(kind, default_noreply=False)
    with pytest.raises(MemcacheIllegalInputError):
        strict.get("sch\u00f6n")
    strict.close()
    client = connect(kind, default_noreply=False, allow_unicode_keys=True)
    client.set("sch\u00f6n-\u4e2d", b"1")
    assert client.get("sch\u00f6n-\u4e2d") == b"1"
    assert client.get_many(["sch\u00f6n-\u4e2d"]) == {"sch\u00f6n-\u4e2d": b"1"}
    client.close()


def test_flush_all_empties_the_cache(client):
    client.set("key", b"1")
    client.flush_all()
    assert client.get("key") is None
    client.set("key", b"2")
    assert client.get("key") == b"2"


def test_a_delayed_flush_takes_effect_later(plain):
    plain.set("far", b"1")
    plain.flush_all(3600)
    assert plain.get("far") == b"1"
    plain.flush_all(1)
    wait_until_gone(plain, "far")
    # A server that counts in whole seconds also flushes what is stored until the end of this one.
    wait_until("items are kept again", lambda: plain.set("key", b"1") and plain.get("key") == b"1")


def test_stats_and_version_answer():
    client = connect("plain", default_noreply=False)
    client.set("key", b"1")
    before = client.stats()
    client.get("key")
    client.get("absent")
    after = client.stats()
    assert int(after[b"get_hits"]) == int(before[b"get_hits"]) + 1
    assert int(after[b"get_misses"]) == int(before[b"get_misses"]) + 1
    assert int(after[b"curr_items"]) >= 1
    assert client.version()
    client.quit()


def test_many_threads_share_a_pool():
    # The pool raises an error for a thread more than it has connections.
    client = connect("pooled", default_noreply=False, max_pool_size=16)

    def work(me):
        for i in range(100):
            key, value = f"thread-{me}-{i}", b"%d-%d" % (me, i)
            client.set(key, value)
            assert client.get(key) == value

    with concurrent.futures.ThreadPoolExecutor(16) as threads:
        list(threads.map(work, range(16)))
    client.close()


def test_concurrent_counting_loses_nothing():
    setup = connect("plain", default_noreply=False)
    setup.set("shared", b"0")

    def work():
        client = connect("plain", default_noreply=False)
        for _ in range(500):
            client.incr("shared", 1)
        client.close()

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert setup.get("shared") == b"4000"
    setup.close()


def test_concurrent_cas_lets_one_writer_win_each_round():
    setup = connect("plain", default_noreply=False)
    setup.set("shared", b"0")

    def work():
        client = connect("plain", default_noreply=False)
        for _ in range(50):
            while True:
                value, version = client.gets("shared")
                if client.cas("shared", b"%d" % (int(value) + 1), version):
                    break
        client.close()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert setup.get("shared") == b"200"
    setup.close()
