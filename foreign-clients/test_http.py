"""HTTP through Python's clients: requests, with its pool of connections, and http.client.

HTTP_PORT and RESP_PORT say where the server is.
"""

import concurrent.futures
import email.utils
import http.client
import json
import os
import socket
import time
import urllib.parse

import pytest
import redis
import requests
import urllib3

from servers import wait_until

PORT = int(os.environ["HTTP_PORT"])
BASE = f"http://127.0.0.1:{PORT}"


@pytest.fixture
def web():
    with requests.Session() as session:
        yield session


@pytest.fixture
def raw():
    with socket.create_connection(("127.0.0.1", PORT), timeout=60) as connection:
        yield connection


def path(key):
    return f"{BASE}/v1/cache/{urllib.parse.quote(key, safe='')}"


def received(connection):
    """All that comes until the server ends the connection."""
    reply = b""
    while part := connection.recv(65536):
        reply += part
    return reply


def test_one_connection_serves_many_requests():
    with urllib3.HTTPConnectionPool("127.0.0.1", PORT) as pool:
        for number in range(50):
            assert pool.request("PUT", f"/v1/cache/pool:{number}", body=str(number)).status == 204
            assert pool.request("GET", f"/v1/cache/pool:{number}").data == str(number).encode()
        assert (pool.num_connections, pool.num_requests) == (1, 100)


@pytest.mark.parametrize("key", ["a b", "a/b", "%", "ключ", "?x=1#y", "k" * 4000, "\x00\x7f"])
def test_any_key(web, key):
    assert web.put(path(key), data=key.encode()).status_code == 204
    assert web.get(path(key)).content == key.encode()


def test_a_key_that_libraries_take_for_a_folder():
    connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=60)
    connection.request("PUT", "/v1/cache/%2E%2E", body=b"dots")
    assert connection.getresponse().status == 204
    connection.close()
    assert redis.Redis(port=int(os.environ["RESP_PORT"])).get("..") == b"dots"


@pytest.mark.parametrize("size", [0, 1, 16_383, 16_384, 100_000, 1 << 20])
def test_sizes_by_length_and_as_a_stream(web, size):
    value = os.urandom(size)
    headers = {"Content-Type": "image/png"}
    assert web.put(path("size"), data=value, headers=headers).status_code == 204
    assert web.get(path("size")).content == value
    pieces = (value[at : at + 7_000] for at in range(0, size, 7_000))
    assert web.put(path("stream"), data=pieces, headers=headers).status_code == 204
    response = web.get(path("stream"), stream=True)
    assert response.headers["Content-Type"] == "image/png"
    assert response.raw.read() == value


def test_a_value_that_is_too_long(web, raw):
    raw.sendall(b"PUT /v1/cache/long HTTP/1.1\r\nHost: localhost\r\nContent-Length: 600000000\r\n\r\nx")
    assert received(raw).startswith(b"HTTP/1.1 413 ")
    assert web.get(path("long")).status_code == 404


def test_a_large_upload_waits_for_leave(raw):
    raw.sendall(
        b"PUT /v1/cache/leave HTTP/1.1\r\nHost: localhost\r\nContent-Length: 500000\r\n"
        b"Expect: 100-continue\r\nConnection: close\r\n\r\n"
    )
    assert raw.recv(1000) == b"HTTP/1.1 100 Continue\r\n\r\n"
    raw.sendall(b"y" * 500_000)
    assert received(raw).startswith(b"HTTP/1.1 204 ")


def test_a_message_is_read_at_once_by_its_location(web):
    message = {"id": "user/7", "content": {"name": "Zoë", "tags": [1, None, "x"]}, "ttl": "10h"}
    response = web.post(f"{BASE}/v1/cache", json=message)
    assert response.status_code == 201
    read = web.get(BASE + response.headers["Location"])
    assert read.json() == message["content"]
    assert read.headers["Content-Type"] == "application/json"
    seconds = int(read.headers["Cache-Control"].removeprefix("max-age="))
    # A busy machine may take long until it asks.
    assert 35_000 <= seconds <= 36_000
    whole = web.get(f"{BASE}/v1/cache", params={"id": "user/7"}).json()
    assert whole["content"] == message["content"] and 35_000 <= whole["ttl"] <= 36_000


def test_batches_of_a_thousand(web):
    items = [{"id": f"batch:{n}", "content": "v" * (n % 300), "ttl": 60} for n in range(1000)]
    put = web.post(f"{BASE}/v1/cache/batch/put", json={"items": items})
    assert put.json() == {"stored": 1000, "failed": []}
    ids = [item["id"] for item in items]
    got = web.post(f"{BASE}/v1/cache/batch/get", json={"ids": ids}).json()["items"]
    assert [(item["id"], item["content"]) for item in got] == [
        (item["id"], item["content"]) for item in items
    ]


def test_an_item_expires_and_not_before(web):
    web.put(path("short"), data=b"x", params={"ttl": "10h"})
    assert web.get(path("short")).status_code == 200

    def is_stored():
        web.put(path("short"), data=b"x", params={"ttl": "300ms"})
        return web.get(path("short")).status_code == 200

    # A busy machine may ask too late at first.
    wait_until("an item with a short time to live is a hit", is_stored)
    wait_until("it expires", lambda: web.get(path("short")).status_code == 404)


def test_one_of_many_writers_wins(web):
    web.delete(path("race"))

    def add(number):
        headers = {"If-None-Match": "*"}
        return requests.put(path("race"), data=str(number), headers=headers).status_code

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        statuses = sorted(pool.map(add, range(64)))
    assert statuses == [204] + [412] * 63


def test_counting_by_conditions_loses_nothing(web):
    web.put(path("cas"), data=b"0")

    def count(_):
        with requests.Session() as session:
            done = 0
            while done < 10:
                old = session.get(path("cas"))
                headers = {"If-Match": old.headers["ETag"]}
                new = session.put(path("cas"), data=str(int(old.text) + 1), headers=headers)
                done += new.status_code == 204

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(count, range(8)))
    assert web.get(path("cas")).text == "80"


def test_incr_loses_nothing(web):
    web.delete(path("n"))

    def count(_):
        with requests.Session() as session:
            return [session.post(path("n") + "/incr").json()["value"] for _ in range(25)]

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        values = sorted(value for part in pool.map(count, range(8)) for value in part)
    assert values == list(range(1, 201))
    assert redis.Redis(port=int(os.environ["RESP_PORT"])).get("n") == b"200"


def test_one_of_many_readers_gets_the_lease(web):
    web.delete(path("lease"))

    def ask(_):
        headers = {"Cache-Lease": "ask"}
        reply = requests.get(path("lease"), params={"lease": "1h"}, headers=headers)
        return reply.headers["Cache-Lease"]

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        leases = sorted(pool.map(ask, range(32)))
    assert leases == ["wait"] * 31 + ["won"]


def test_conditional_reads(web):
    web.put(path("page"), data=b"<p>", headers={"Content-Type": "text/html"})
    tag = web.get(path("page")).headers["ETag"]
    again = web.get(path("page"), headers={"If-None-Match": tag})
    assert (again.status_code, again.content) == (304, b"")
    head = web.head(path("page"))
    assert (head.headers["Content-Length"], head.headers["ETag"]) == ("3", tag)


def test_the_date_is_now(web):
    start = int(time.time())

    def date():
        header = web.get(f"{BASE}/healthz").headers["Date"]
        return email.utils.parsedate_to_datetime(header).timestamp()

    wait_until("the header Date names the second in which the test began", lambda: date() >= start)
    assert date() <= time.time()


def test_pipelined_requests_are_answered_in_order(raw):
    one = b"GET /v1/cache/pipe:%d HTTP/1.1\r\nHost: localhost\r\n\r\n"
    last = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    for number in range(300):
        requests.put(path(f"pipe:{number}"), data=f"value {number}")
    raw.sendall(b"".join(one % number for number in range(300)) + last)
    reply = received(raw)
    places = [reply.index(b"\r\n\r\nvalue %dHTTP" % number) for number in range(300)]
    assert places == sorted(places)
    assert reply.endswith(b"\r\n\r\nok\n")


SMUGGLED = b"GET /v1/cache/secret HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.mark.parametrize(
    "request_head",
    [
        b"Content-Length: 44\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\nContent-Length: 44\r\n\r\n0\r\n\r\n",
        b"Content-Length: 0\r\nContent-Length: 44\r\n\r\n",
        b"Content-Length: 44\r\nContent-Length: 0\r\n\r\n",
        b"Content-Length: 0, 44\r\n\r\n",
        b"Content-Length:\x0b44\r\n\r\n",
        b"Content-Length: 4_4\r\n\r\n",
        b"Content-Length : 44\r\n\r\n",
        b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
        b"X: y\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"X: y\rTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"\x00Content-Length: 44\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n0\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n0x0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n0 \r\n\r\n",
    ],
)
def test_nothing_is_smuggled(raw, request_head):
    raw.sendall(b"PUT /v1/cache/front HTTP/1.1\r\nHost: localhost\r\n" + request_head + SMUGGLED)
    reply = received(raw)
    assert reply.count(b"HTTP/1.1 ") == 1, reply
    assert reply.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 501 ")), reply
    assert b"\r\nConnection: close\r\n" in reply
    document = json.loads(reply.split(b"\r\n\r\n", 1)[1])
    assert set(document["error"]) == {"code", "message"}


@pytest.mark.parametrize("host", ["rebound.example", f"rebound.example:{PORT}", ""])
def test_another_name_is_not_answered_to(web, host):
    assert web.get(f"{BASE}/metrics", headers={"Host": host}).status_code == 421
    refused = web.put(path("rebound"), data=b"x", headers={"Host": host})
    assert (refused.status_code, refused.json()["error"]["code"]) == (421, "wrong_host")
    assert web.get(path("rebound")).status_code == 404


def test_a_page_of_another_origin_changes_nothing(web):
    web.put(path("origin"), data=b"1")
    for origin in ["http://evil.example", "null", f"http://localhost:{PORT}"]:
        refused = web.post(path("origin") + "/incr", headers={"Origin": origin})
        assert refused.status_code == 403
    assert web.get(path("origin")).text == "1"


def test_http_1_0_is_served_and_closed(raw):
    raw.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
    assert received(raw).endswith(b"\r\nConnection: close\r\nContent-Type: text/plain; "
                                  b"charset=utf-8\r\nContent-Length: 3\r\n\r\nok\n")
