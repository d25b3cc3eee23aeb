import django
from django.conf import settings
from helpers import URL, show

settings.configure(
    SECRET_KEY="a key of no value",
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    INSTALLED_APPS=["django.contrib.contenttypes", "cacheops", "django.contrib.auth"],
    CACHEOPS_REDIS=URL,
    CACHEOPS={"auth.user": {"ops": "all", "timeout": 60}},
)
django.setup()
from cacheops import cached, invalidate_all
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import connection

call_command("migrate", verbosity=0)
User.objects.create(username="ada")
connection.force_debug_cursor = True
show("query", [user.username for user in User.objects.filter(username="ada")])
before = len(connection.queries)
show("cached", [user.username for user in User.objects.filter(username="ada")])
show("asked", len(connection.queries) - before)
User.objects.filter(username="ada").get().delete()
show("invalidated", list(User.objects.filter(username="ada")))
show("function", cached(timeout=60)(lambda: 5)(), invalidate_all())
