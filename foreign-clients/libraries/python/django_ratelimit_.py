import django_setup

django_setup.cache("django.core.cache.backends.redis.RedisCache")
from django.http import HttpResponse
from django.test import RequestFactory
from django_ratelimit.core import is_ratelimited
from django_ratelimit.decorators import ratelimit
from helpers import show


@ratelimit(key="ip", rate="3/h", block=False)
def view(request):
    return HttpResponse("too many" if request.limited else "hello")


request = RequestFactory().get("/")
show("answers", [view(request).content for _ in range(5)])
show("asked", is_ratelimited(request, group="other", key="ip", rate="1/h", increment=True))
