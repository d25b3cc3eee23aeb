"""Cellar behind Django: its own Redis backend and django-redis, in a real project's settings.

foreign-clients/run starts the server and passes its port in RESP_PORT.
"""

import os

import django
import pytest
from django.conf import settings

from servers import wait_until

PORT = int(os.environ["RESP_PORT"])

settings.configure(
    SECRET_KEY="a secret of the tests",
    INSTALLED_APPS=["django.contrib.sessions"],
    SESSION_ENGINE="django.contrib.sessions.backends.cache",
    CACHES={
        "default": {
            "BACKEND": "django.core.cache.backends.redis.RedisCache",
            "LOCATION": f"redis://127.0.0.1:{PORT}/1",
        },
        "django-redis": {
            "BACKEND": "django_redis.cache.RedisCache",
            "LOCATION": f"redis://127.0.0.1:{PORT}/2",
            "OPTIONS": {"CLIENT_CLASS": "django_redis.client.DefaultClient"},
        },
    },
)
django.setup()

from django.contrib.sessions.backends.cache import SessionStore  # noqa: E402
from django.core.cache import caches  # noqa: E402


@pytest.fixture(params=["default", "django-redis"])
def cache(request):
    cache = caches[request.param]
    cache.clear()
    return cache


@pytest.fixture
def lasting():
    """django-redis, for what only it can do."""
    cache = caches["django-redis"]
    cache.clear()
    return cache


@pytest.mark.parametrize("value", ["text", 7, -1, 1.5, None, b"\x00\xff", [1, {"a": (2,)}], True])
def test_any_value_comes_back(cache, value):
    cache.set("key", value)
    assert cache.get("key", "a default") == value


def test_a_miss_gives_the_default(cache):
    assert cache.get("nothing") is None
    assert cache.get("nothing", "a default") == "a default"
    assert cache.get_or_set("key", lambda: "made") == "made"
    assert cache.get("key") == "made"


def test_add_stores_only_what_is_absent(cache):
    assert cache.add("key", 1)
    assert not cache.add("key", 2)
    assert cache.get("key") == 1


def test_many_at_once(cache):
    assert cache.set_many({"a": 1, "b": [2], "c": "3"}, timeout=100) in ([], None)
    assert cache.get_many(["a", "b", "x"]) == {"a": 1, "b": [2]}
    cache.delete_many(["a", "b"])
    assert cache.get_many(["a", "b", "c"]) == {"c": "3"}


def test_numbers_count(cache):
    cache.set("n", 1)
    assert cache.incr("n") == 2
    assert cache.incr("n", 10) == 12
    assert cache.decr("n", 2) == 10
    with pytest.raises(ValueError):
        cache.incr("nothing")


def test_times_to_live(cache):
    cache.set("short", "x", timeout=1)
    cache.set("gone", "x", timeout=0)
    cache.set("long", "x", timeout=None)
    assert cache.get("gone") is None
    assert cache.touch("long", 100)
    assert not cache.touch("nothing", 100)
    assert cache.has_key("long") and "long" in cache
    wait_until("the item expires", lambda: cache.get("short") is None)
    assert cache.get("long") == "x"


def test_versions_are_apart(cache):
    cache.set("key", "one", version=1)
    cache.set("key", "two", version=2)
    assert cache.get("key", version=1) == "one"
    assert cache.incr_version("key", version=2) == 3
    assert cache.get("key", version=3) == "two"


def test_clear_empties_this_database_only(cache):
    other = caches["django-redis" if cache is caches["default"] else "default"]
    other.set("key", "kept")
    cache.set("key", "x")
    cache.clear()
    assert cache.get("key") is None
    assert other.get("key") == "kept"
    other.clear()


def test_delete_tells_whether_there_was_something(cache):
    cache.set("key", 1)
    assert cache.delete("key")
    assert not cache.delete("key")


def test_a_session_is_kept():
    session = SessionStore()
    session["user"] = {"id": 7, "name": "Ada"}
    session.save()
    again = SessionStore(session_key=session.session_key)
    assert again["user"] == {"id": 7, "name": "Ada"}
    again.flush()
    assert not SessionStore().exists(session.session_key)


def test_django_redis_finds_and_deletes_by_pattern(lasting):
    lasting.set_many({f"page-{i}": i for i in range(300)})
    lasting.set("other", 1)
    assert len(list(lasting.iter_keys("page-*"))) == 300
    assert lasting.delete_pattern("page-*") == 300
    assert lasting.keys("*") == ["other"]


def test_django_redis_changes_deadlines(lasting):
    lasting.set("key", "x", timeout=100)
    assert 0 < lasting.ttl("key") <= 100
    assert lasting.persist("key") and lasting.ttl("key") is None
    assert lasting.pexpire("key", 50_000)
    assert 0 < lasting.pttl("key") <= 50_000


def test_django_redis_locks(lasting):
    with lasting.lock("lock", timeout=10):
        assert not lasting.lock("lock", timeout=10).acquire(blocking=False)
    assert lasting.lock("lock", timeout=10).acquire(blocking=False)
