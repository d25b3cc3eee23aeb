from flask import Flask
from flask_caching import Cache
from helpers import HOST, PORT, show

app = Flask(__name__)
redis = {"CACHE_TYPE": "RedisCache", "CACHE_REDIS_HOST": HOST, "CACHE_REDIS_PORT": PORT}
cache = Cache(app, config=redis)
calls = []


@app.route("/")
@cache.cached(timeout=60)
def index():
    calls.append("index")
    return f"page {len(calls)}"


@cache.memoize(60)
def double(number):
    calls.append(number)
    return 2 * number


with app.test_client() as client:
    show("page", client.get("/").text, client.get("/").text)
with app.app_context():
    show("memoized", double(3), double(3), calls)
    show("forgotten", cache.delete_memoized(double), double(3), calls)
    show("many", cache.set_many({"x": 1, "y": 2}), cache.get_many("x", "none", "y"))
    show("clear", cache.clear(), cache.get("x"))
