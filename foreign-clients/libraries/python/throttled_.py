from helpers import URL, show
from throttled import RateLimiterType, Throttled, rate_limiter, store

for kind in ("fixed_window", "sliding_window", "token_bucket", "leaking_bucket", "gcra"):
    throttle = Throttled(
        key=kind,
        using=kind,
        quota=rate_limiter.per_hour(3, burst=3),
        store=store.RedisStore(server=URL),
    )
    show(kind, [throttle.limit().limited for _ in range(5)], bool(RateLimiterType))
