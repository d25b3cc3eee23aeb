import limits
from helpers import ADDRESS, show
from limits import storage, strategies

store = storage.storage_from_string(f"memcached://{ADDRESS}")
for kind in ("FixedWindow", "SlidingWindowCounter"):
    limiter = getattr(strategies, f"{kind}RateLimiter")(store)
    item = limits.parse("3/hour")
    show(kind, [limiter.hit(item, kind) for _ in range(5)], limiter.test(item, kind))
    limiter.clear(item, kind)
    show("cleared", limiter.hit(item, kind))
show("there", store.check())
