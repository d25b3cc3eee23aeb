import limits
from helpers import URL, show
from limits import storage, strategies

store = storage.storage_from_string(URL)
for kind in ("FixedWindow", "MovingWindow", "SlidingWindowCounter"):
    limiter = getattr(strategies, f"{kind}RateLimiter")(store)
    item = limits.parse("3/hour")
    show(kind, [limiter.hit(item, kind) for _ in range(5)], limiter.test(item, kind))
    show("left", limiter.get_window_stats(item, kind).remaining)
    limiter.clear(item, kind)
    show("cleared", limiter.hit(item, kind))
show("reset", store.check())
