"""limits: each of its strategies with Redis or memcached; and its asynchronous storage. See feature.py."""

import time

import limits.aio.storage
import limits.aio.strategies
from limits import RateLimitItemPerHour, RateLimitItemPerSecond, parse
from limits.storage import storage_from_string
from limits.strategies import FixedWindowRateLimiter, MovingWindowRateLimiter, SlidingWindowCounterRateLimiter

from feature import IS_RESP, PORT, REDIS, between, end, equal, feature, in_threads, soon, versions

versions("limits", "redis" if IS_RESP else "pymemcache")
storage = storage_from_string(REDIS if IS_RESP else f"memcached://127.0.0.1:{PORT}")


def allowed_of_threads(limiter, item):
    return sum(sum(found) for found in in_threads(8, lambda _: [limiter.hit(item, "u") for _ in range(20)]))


def exact(strategy):
    limiter = strategy(storage)
    equal(allowed_of_threads(limiter, RateLimitItemPerHour(50)), 50)
    equal(limiter.test(RateLimitItemPerHour(50), "u"), False)
    equal(limiter.test(RateLimitItemPerHour(50), "other"), True)


def statistics(strategy):
    limiter, item = strategy(storage), RateLimitItemPerHour(10)
    equal([limiter.hit(item, "u", cost=4) for _ in range(2)], [True, True])
    equal((limiter.test(item, "u", cost=2), limiter.test(item, "u", cost=3)), (True, False))
    found = limiter.get_window_stats(item, "u")
    equal(found.remaining, 2)
    between(time.time() - 5, found.reset_time, time.time() + 3605)
    limiter.clear(item, "u")
    equal(limiter.get_window_stats(item, "u").remaining, 10)


def renews(strategy):
    limiter, item = strategy(storage), RateLimitItemPerSecond(3, 2)
    soon(lambda: not limiter.hit(item, "u"), 10)
    soon(lambda: limiter.hit(item, "u"), 10)


@feature("fixed window: exact, 8 threads")
def _():
    exact(FixedWindowRateLimiter)


@feature("fixed window: statistics, cost, clear, renewal")
def _():
    statistics(FixedWindowRateLimiter)
    renews(FixedWindowRateLimiter)


@feature("moving window: exact, 8 threads", runs=IS_RESP)
def _():
    exact(MovingWindowRateLimiter)


@feature("moving window: statistics, cost, clear, renewal", runs=IS_RESP)
def _():
    statistics(MovingWindowRateLimiter)
    renews(MovingWindowRateLimiter)


@feature("sliding window: exact, 8 threads", runs=IS_RESP)
def _():
    exact(SlidingWindowCounterRateLimiter)


@feature("sliding window: exact, one thread", runs=not IS_RESP)
def _():
    limiter = SlidingWindowCounterRateLimiter(storage)
    equal(sum(limiter.hit(RateLimitItemPerHour(50), "u") for _ in range(160)), 50)


@feature("sliding window: statistics, cost, clear, renewal")
def _():
    statistics(SlidingWindowCounterRateLimiter)
    renews(SlidingWindowCounterRateLimiter)


@feature("several limits, check", runs=True)
def _():
    limiter = FixedWindowRateLimiter(storage)
    small, large = parse("2/hour"), parse("100 per day")
    equal([limiter.hit(small, "u") and limiter.hit(large, "u") for _ in range(3)], [True, True, False])
    equal((limiter.get_window_stats(large, "u").remaining, storage.check()), (98, True))


@feature("reset of all limits", runs=IS_RESP)
def _():
    limiter, item = FixedWindowRateLimiter(storage), RateLimitItemPerHour(5)
    for user in range(30):
        limiter.hit(item, str(user))
    storage.storage.set("of another", 1)
    equal((storage.reset(), limiter.get_window_stats(item, "3").remaining), (30, 5))
    equal(storage.storage.get("of another"), b"1")


@feature("asynchronous storage, each strategy", runs=IS_RESP)
async def _():
    found = limits.aio.storage.RedisStorage(f"async+{REDIS}", implementation="redispy")
    for name in ("FixedWindow", "MovingWindow", "SlidingWindowCounter"):
        limiter = getattr(limits.aio.strategies, f"{name}RateLimiter")(found)
        item = RateLimitItemPerHour(5)
        equal([await limiter.hit(item, name) for _ in range(6)], [True] * 5 + [False])
        equal((await limiter.get_window_stats(item, name)).remaining, 0)
    equal(await found.check(), True)


end()
