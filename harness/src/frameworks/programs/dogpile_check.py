"""dogpile.cache with Redis or with memcached by pymemcache. See feature.py."""

import time

from dogpile.cache import make_region
from dogpile.cache.api import NO_VALUE
from dogpile.cache.util import sha1_mangle_key

from feature import IS_RESP, PORT, between, end, equal, feature, in_threads, soon, versions

versions("dogpile.cache", "redis" if IS_RESP else "pymemcache")


def region(expiration_s=60, **more):
    if IS_RESP:
        arguments = {"host": "127.0.0.1", "port": PORT, **more}
        return make_region().configure("dogpile.cache.redis", expiration_time=expiration_s, arguments=arguments)
    arguments = {"url": [f"127.0.0.1:{PORT}"], **more}
    # pymemcache refuses keys with spaces, which cache_on_arguments makes.
    made = make_region(key_mangler=lambda key: sha1_mangle_key(key.encode()))
    return made.configure("dogpile.cache.pymemcache", expiration_time=expiration_s, arguments=arguments)


def lasting(seconds):
    """The argument that gives items a lifetime on the server."""
    return {"redis_expiration_time" if IS_RESP else "memcached_expire_time": seconds}


@feature("set, get, delete")
def _():
    cache = region()
    cache.set("k", {"a": [1, None]})
    equal((cache.get("k"), cache.get("none")), ({"a": [1, None]}, NO_VALUE))
    cache.delete("k")
    equal(cache.get("k"), NO_VALUE)


@feature("set_multi, get_multi, delete_multi")
def _():
    cache = region(**lasting(100))
    pairs = {f"k{i}": i for i in range(100)}
    cache.set_multi(pairs)
    equal(cache.get_multi([*pairs, "none"]), [*range(100), NO_VALUE])
    cache.delete_multi(list(pairs)[1:])
    equal(cache.get_multi(list(pairs)), [0] + [NO_VALUE] * 99)


@feature("lifetimes on the server, and those of the region")
def _():
    cache = region(expiration_s=1, **lasting(60))
    cache.set("k", 1)
    short = region(**lasting(1))
    short.set("short", 1)
    equal((cache.get("k"), short.get("short")), (1, 1))
    time.sleep(2.1)
    equal((cache.get("k"), cache.get("k", ignore_expiration=True), short.get("short")), (NO_VALUE, 1, NO_VALUE))
    equal(short.backend.get_serialized("short") if IS_RESP else NO_VALUE, NO_VALUE)


@feature("get_or_create: one of 8 threads creates")
def _():
    runs = []
    cache = region()

    def create():
        runs.append(1)
        time.sleep(0.2)
        return 42

    equal(in_threads(8, lambda _: cache.get_or_create("k", create)), [42] * 8)
    equal(len(runs), 1)


@feature("distributed_lock: one of 6 regions creates, and the lock is gone after it")
def _():
    runs = []

    def create():
        runs.append(1)
        time.sleep(0.3)
        return 42

    named = {"distributed_lock": True, "lock_timeout": 10, **({"thread_local_lock": False} if IS_RESP else {})}
    regions = [region(**named) for _ in range(6)]
    equal(in_threads(6, lambda index: regions[index].get_or_create("k", create)), [42] * 6)
    equal(len(runs), 1)
    mutex = regions[0].backend.get_mutex("k")
    equal((mutex.acquire(False), regions[1].backend.get_mutex("k").acquire(False)), (True, False))
    mutex.release()
    equal(regions[1].backend.get_mutex("k").acquire(False), True)


@feature("an old value is answered while one thread makes the new one")
def _():
    cache = region(expiration_s=0.2)
    cache.set("k", "old")
    time.sleep(0.3)

    def create():
        time.sleep(0.5)
        return "new"

    def body(index):
        time.sleep(0.1 if index else 0)
        begun = time.monotonic()
        return cache.get_or_create("k", create), time.monotonic() - begun

    (first, _), *others = in_threads(4, body)
    equal((first, {value for value, _ in others}), ("new", {"old"}))
    between(0, max(duration for _, duration in others), 0.3)


@feature("cache_on_arguments: hits, invalidate, refresh, set")
def _():
    runs = []

    @region().cache_on_arguments(namespace="n")
    def total(a, b):
        runs.append(1)
        return a + b + 100 * len(runs)

    equal([total(1, 2), total(1, 2), total(2, 2)], [103, 103, 204])
    total.invalidate(1, 2)
    equal([total(1, 2), total(2, 2), total.refresh(2, 2), total(2, 2)], [303, 204, 404, 404])
    total.set(5, 1, 1)
    equal((total(1, 1), total.get(9, 9)), (5, NO_VALUE))


@feature("cache_multi_on_arguments")
def _():
    asked = []

    @region(**lasting(50)).cache_multi_on_arguments()
    def squares(*numbers):
        asked.append(numbers)
        return [number * number for number in numbers]

    equal([squares(1, 2), squares(2, 3)], [[1, 4], [4, 9]])
    equal([set(numbers) for numbers in asked], [{1, 2}, {3}])


@feature("invalidate of the region, hard and soft")
def _():
    cache = region()
    cache.set("k", 1)
    time.sleep(0.01)
    cache.invalidate()
    equal(cache.get("k"), NO_VALUE)
    cache.set("k", 2)
    equal(cache.get("k"), 2)
    cache.invalidate(hard=False)
    equal(cache.get_or_create("k", lambda: 3), 3)


end()
