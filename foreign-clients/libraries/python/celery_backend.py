from celery import Celery
from celery.result import AsyncResult
from helpers import URL, show

app = Celery("app", broker="memory://", backend=URL)
app.backend.store_result("one", {"sum": 5}, "SUCCESS")
result = AsyncResult("one", app=app)
show("stored", result.state, result.get(timeout=5), result.forget(), result.state)
app.backend.store_result("two", ValueError("no"), "FAILURE", traceback="trace")
show("failed", AsyncResult("two", app=app).state)
