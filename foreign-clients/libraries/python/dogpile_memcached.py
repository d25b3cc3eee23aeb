from dogpile.cache import make_region
from helpers import ADDRESS, URL, show

arguments = {"url": ADDRESS, "distributed_lock": True, "memcached_expire_time": 600}
region = make_region().configure("dogpile.cache.pymemcache", expiration_time=60, arguments=arguments)
calls = []


@region.cache_on_arguments()
def double(number):
    calls.append(number)
    return 2 * number


show("made once", double(3), double(3), calls)
show("refreshed", double.refresh(3), double.invalidate(3), double(3), calls)
region.set_multi({"x": 1, "y": 2})
show("many", region.get_multi(["x", "y"]), bool(region.get("none")))
show("or create", region.get_or_create("z", lambda: "made"), region.get("z"))
region.delete_multi(["x", "y"])
show("deleted", bool(region.get("x")), bool(ADDRESS and URL))
