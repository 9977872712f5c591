"""pottery: its lock, cache and containers. See feature.py."""

import time

import redis
from pottery import BloomFilter, HyperLogLog, NextID, RedisCounter, RedisDeque, RedisDict, RedisList, RedisSet
from pottery import Redlock, ReleaseUnlockedLock, redis_cache, synchronize

from feature import PORT, between, end, equal, feature, in_threads, raises, versions

versions("pottery", "redis")


def client():
    return redis.Redis(port=PORT)


r = client()


def lock(seconds=10, **named):
    return Redlock(key="l", masters={client()}, auto_release_time=seconds, **named)


@feature("Redlock: acquire, release, owner, expiry")
def _():
    one, other = lock(), lock()
    equal((one.acquire(), other.acquire(blocking=False)), (True, False))
    between(8, one.locked(), 10)
    equal(other.locked(), 0)
    raises(ReleaseUnlockedLock, other.release)
    one.release()
    equal(other.acquire(blocking=False), True)
    other.release()
    short = lock(0.3)
    equal((short.acquire(), other.acquire(timeout=3)), (True, True))


@feature("Redlock: extend")
def _():
    one = lock(2)
    one.acquire()
    time.sleep(1)
    between(0.5, one.locked(), 1)
    one.extend()
    between(1.5, one.locked(), 2)


@feature("synchronize: 8 threads exclude each other")
def _():
    @synchronize(key="s", masters={r}, auto_release_time=10)
    def more():
        now = int(r.get("n") or 0)
        r.set("n", now + 1)

    in_threads(8, lambda _: [more() for _ in range(3)])
    equal(r.get("n"), b"24")


@feature("redis_cache: hits, misses, bypass, clear")
def _():
    runs = []

    @redis_cache(redis=r, key="cached", timeout=60)
    def square(number):
        runs.append(number)
        return number * number

    equal([square(3), square(3), square(4), len(runs)], [9, 9, 16, 2])
    equal((square.cache_info().hits, square.cache_info().misses), (1, 2))
    square.__bypass__(3)
    square.cache_clear()
    equal((square(3), len(runs)), (9, 4))


@feature("NextID: 2 clients get different numbers")
def _():
    one, other = (NextID(key="ids", masters={client()}) for _ in range(2))
    equal([next(ids) for _ in range(25) for ids in (one, other)], list(range(1, 51)))


@feature("RedisDict, RedisSet, RedisCounter, RedisList, RedisDeque")
def _():
    words = RedisDict({"a": 1, "b": [2]}, redis=r, key="dict")
    words["c"] = None
    del words["a"]
    equal((dict(words), len(words), "b" in words), ({"b": [2], "c": None}, 2, True))
    letters = RedisSet({"a", "b"}, redis=r, key="set")
    letters.add("c")
    letters.discard("a")
    equal((set(letters), len(letters)), ({"b", "c"}, 2))
    counter = RedisCounter("aabc", redis=r, key="counter")
    counter["a"] += 1
    equal((counter["a"], counter["b"], counter.most_common(1)), (3, 1, [("a", 3)]))
    numbers = RedisList([3, 1, 2], redis=r, key="list")
    numbers.append(0)
    numbers.sort()
    numbers.insert(1, 9)
    equal((list(numbers), numbers[1:3], numbers.pop()), ([0, 9, 1, 2, 3], [9, 1], 3))
    latest = RedisDeque([1, 2, 3], redis=r, key="deque", maxlen=3)
    latest.append(4)
    latest.appendleft(0)
    latest.rotate(1)
    equal(len(latest), 3)


@feature("BloomFilter, HyperLogLog")
def _():
    known = BloomFilter(num_elements=200, false_positives=0.01, redis=r, key="bloom")
    known.update({f"a{number}" for number in range(100)})
    equal(all(f"a{number}" in known for number in range(100)), True)
    between(0, sum(f"b{number}" in known for number in range(100)), 10)
    seen = HyperLogLog((f"a{number}" for number in range(1000)), redis=r, key="hyper")
    between(950, len(seen), 1050)


end()
