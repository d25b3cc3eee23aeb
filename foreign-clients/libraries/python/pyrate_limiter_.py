from helpers import URL, show
from pyrate_limiter import Duration, Limiter, Rate, RedisBucket
from redis import Redis

bucket = RedisBucket.init([Rate(3, Duration.HOUR)], Redis.from_url(URL), "limit")
limiter = Limiter(bucket)
show("acquired", [limiter.try_acquire("me", blocking=False) for _ in range(5)], bucket.count())
