from celery import Celery
from celery.result import AsyncResult
from helpers import ADDRESS, show

app = Celery("app", broker="memory://", backend=f"cache+memcached://{ADDRESS}/")
app.backend.store_result("one", {"sum": 5}, "SUCCESS")
result = AsyncResult("one", app=app)
show("stored", result.state, result.get(timeout=5), result.forget())
