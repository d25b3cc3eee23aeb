"""Cellar through Python clients of the binary protocol: python-binary-memcached and pylibmc.

foreign-clients/run starts the server and passes its port in CACHE_PORT.
"""

import os

import bmemcached
import pylibmc
import pytest

from servers import wait_until

ADDRESS = "127.0.0.1:" + os.environ["CACHE_PORT"]
LARGE = bytes(range(256)) * 3000


@pytest.fixture
def pure():
    """python-binary-memcached, which speaks nothing else."""
    client = bmemcached.Client([ADDRESS], compression=None, socket_timeout=20)
    client.flush_all()
    yield client
    client.disconnect_all()


@pytest.fixture
def native():
    """pylibmc over libmemcached, set to the binary protocol."""
    client = pylibmc.Client([ADDRESS], binary=True, behaviors={"cas": True, "tcp_nodelay": True})
    client.flush_all()
    yield client
    client.disconnect_all()


@pytest.mark.parametrize("value", ["text", 17, LARGE, {"a": [1, 2]}, b""])
def test_what_is_stored_is_read(pure, native, value):
    assert pure.set("pure", value)
    assert pure.get("pure") == value
    assert native.set("native", value)
    assert native.get("native") == value


def test_conditions(pure, native):
    for client in [pure, native]:
        client.delete("k")
        assert client.add("k", "1")
        assert not client.add("k", "2")
        assert client.replace("k", "3")
        assert client.get("k") == "3"
        assert client.delete("k")
        assert client.get("k") is None
    assert not pure.replace("k", "4")
    with pytest.raises(pylibmc.NotFound):
        native.replace("k", "4")


def test_versions(pure, native):
    pure.set("k", "one")
    value, version = pure.gets("k")
    assert value == "one" and version
    assert pure.cas("k", "two", version)
    assert not pure.cas("k", "three", version)
    value, version = native.gets("k")
    # The two mark text by different flags.
    assert value == b"two"
    assert native.cas("k", "four", version)
    assert not native.cas("k", "five", version)
    assert native.get("k") == "four"


def test_many_at_once(pure, native):
    values = {f"key-{number}": f"value-{number}" for number in range(500)}
    asked = [*values, "missing"]
    assert not pure.set_multi(values)
    assert pure.get_multi(asked) == values
    assert not native.set_multi(values)
    assert native.get_multi(asked) == values
    assert native.delete_multi(list(values))
    assert pure.get_multi(asked) == {}


def test_counters(pure, native):
    assert pure.incr("n", 5, default=10) == 10
    assert pure.incr("n", 5) == 15
    assert pure.decr("n", 20) == 0
    native.set("m", 7)
    assert native.incr("m", 3) == 10
    assert native.decr("m") == 9


def test_ends_of_values(native):
    native.set("k", "b")
    assert native.append("k", "c")
    assert native.prepend("k", "a")
    assert native.get("k") == "abc"


def is_touched_in_time(client, key):
    """Stores an item for a second; whether it is still there to be given a longer time."""
    client.set(key, "v", time=1)
    try:
        return client.touch(key, 100)
    except pylibmc.NotFound:
        return False


def test_an_item_goes_in_time(pure, native):
    pure.set("pure", "v", time=1)
    native.set("native", "v", time=1)
    # A busy machine may touch it too late at first.
    assert any(is_touched_in_time(native, "touched") for _ in range(20))
    wait_until("the item of python-binary-memcached expires", lambda: pure.get("pure") is None)
    wait_until("the item of pylibmc expires", lambda: native.get("native") is None)
    assert native.get("touched") == "v"


def test_statistics(pure, native):
    assert int(pure.stats()[ADDRESS]["curr_items"]) >= 0
    [(_, stats)] = native.get_stats()
    assert "cmd_get" in stats
