from fastapi import FastAPI, Request
from fastapi.testclient import TestClient
from helpers import URL, show
from slowapi import Limiter, _rate_limit_exceeded_handler
from slowapi.errors import RateLimitExceeded
from slowapi.util import get_remote_address

limiter = Limiter(key_func=get_remote_address, storage_uri=URL)
app = FastAPI()
app.state.limiter = limiter
app.add_exception_handler(RateLimitExceeded, _rate_limit_exceeded_handler)


@app.get("/")
@limiter.limit("3/hour")
async def index(request: Request):
    return "hello"


client = TestClient(app)
show("answers", [client.get("/").status_code for _ in range(5)])
