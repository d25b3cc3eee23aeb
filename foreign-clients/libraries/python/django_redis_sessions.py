import django
from django.conf import settings
from helpers import HOST, PORT, show

settings.configure(
    SECRET_KEY="a key of no value",
    SESSION_REDIS={"host": HOST, "port": PORT, "db": 0, "prefix": "session"},
    SESSION_ENGINE="redis_sessions.session",
)
django.setup()
from redis_sessions.session import SessionStore

store = SessionStore()
store["user"] = "ada"
store.save()
again = SessionStore(store.session_key)
show("session", again["user"], again.exists(store.session_key), again.delete())
show("gone", SessionStore(store.session_key).get("user"))
