import redis.asyncio as redis
from fastapi import FastAPI
from fastapi.testclient import TestClient
from fastapi_cache import FastAPICache
from fastapi_cache.backends.redis import RedisBackend
from fastapi_cache.decorator import cache
from helpers import URL, show

calls = []


async def started():
    FastAPICache.init(RedisBackend(redis.from_url(URL)), prefix="app")


app = FastAPI(on_startup=[started])


@app.get("/")
@cache(expire=60)
async def index():
    calls.append(1)
    return {"calls": len(calls)}


@app.get("/clear")
async def clear():
    return await FastAPICache.clear()


with TestClient(app) as client:
    first, second = client.get("/"), client.get("/")
    show("cached", first.json(), second.json(), second.headers["x-fastapi-cache"])
    show("clear", client.get("/clear").status_code, client.get("/").json())
