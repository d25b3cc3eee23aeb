"""A Django project of one file."""

import django
from django.conf import settings
from helpers import ADDRESS, URL, show


def cache(backend, **more):
    """Configures Django with a cache; sessions lie in it."""
    location = URL if "edis" in backend else ADDRESS
    settings.configure(
        SECRET_KEY="a key of no value",
        CACHES={"default": {"BACKEND": backend, "LOCATION": location} | more},
        SESSION_ENGINE="django.contrib.sessions.backends.cache",
        INSTALLED_APPS=["django.contrib.sessions"],
        ROOT_URLCONF=__name__,
        ALLOWED_HOSTS=["*"],
        SILENCED_SYSTEM_CHECKS=["django_ratelimit.E003", "django_ratelimit.W001"],
    )
    django.setup()


urlpatterns = []


def session():
    """A session from its first visit to its end."""
    from django.contrib.sessions.backends.cache import SessionStore

    store = SessionStore()
    store["user"] = "ada"
    store.save()
    again = SessionStore(session_key=store.session_key)
    show("session", again["user"], again.exists(again.session_key))
    again.flush()
    show("session ended", SessionStore(session_key=store.session_key).get("user"))
