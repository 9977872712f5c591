"""aiocache with Redis, or with memcached by aiomcache. See feature.py."""

import asyncio

from aiocache import Cache, cached, cached_stampede, multi_cached
from aiocache.lock import OptimisticLock, OptimisticLockError, RedLock
from aiocache.serializers import JsonSerializer, PickleSerializer

from feature import IS_RESP, PORT, end, equal, feature, versions

versions("aiocache", "redis" if IS_RESP else "aiomcache")
PLACE = {"endpoint": "127.0.0.1", "port": PORT}
CACHE = Cache.REDIS if IS_RESP else Cache.MEMCACHED


def cache(**named):
    return Cache(CACHE, **PLACE, **named)


async def refused(error, awaited):
    try:
        await awaited
    except error:
        return True
    return False


async def first_and_others(asked, number):
    """Those that wait find the lock of this process, which the first has made after the server's answer."""
    first = asyncio.create_task(asked())
    await asyncio.sleep(0.2)
    return [*await asyncio.gather(*(asked() for _ in range(number))), await first]


@feature("set, get, add, exists, delete")
async def _():
    async with cache(serializer=PickleSerializer()) as c:
        await c.set("k", {"a": [1, None]})
        equal((await c.get("k"), await c.get("none")), ({"a": [1, None]}, None))
        equal((await refused(ValueError, c.add("k", 1)), await c.add("new", 1)), (True, True))
        equal((await c.exists("k"), bool(await c.delete("k")), await c.exists("k")), (True, True, False))


@feature("multi_set, multi_get")
async def _():
    async with cache(serializer=JsonSerializer()) as c:
        pairs = [(f"k{i}", i) for i in range(100)]
        await c.multi_set(pairs, ttl=60)
        equal(await c.multi_get([*(key for key, _ in pairs), "none"]), [*range(100), None])


@feature("lifetimes, expire")
async def _():
    async with cache() as c:
        await c.set("short", "1", ttl=1)
        await c.set("long", "1", ttl=60)
        await c.set("changed", "1", ttl=60)
        equal(await c.expire("changed", 1), True)
        await asyncio.sleep(2.1)
        equal([await c.get(key) for key in ("short", "long", "changed")], [None, "1", None])


@feature("increment, 8 connections at a time")
async def _():
    async def more():
        async with cache() as c:
            for _ in range(200):
                await c.increment("n")

    async with cache() as c:
        await c.set("n", 0) if IS_RESP else await c.increment("n", 0)
        await asyncio.gather(*(more() for _ in range(8)))
        equal((int(await c.get("n")), await c.increment("n", 5)), (1600, 1605))


@feature("clear of a namespace leaves another", runs=IS_RESP)
async def _():
    async with cache(namespace="a") as a, cache(namespace="b") as b:
        await a.set("k", "1")
        await b.set("k", "2")
        await a.clear(namespace="a")
        equal((await a.get("k"), await b.get("k")), (None, "2"))
        await b.clear()
        equal(await b.get("k"), None)


@feature("RedLock: one of 10 computes, and the lock is gone after it")
async def _():
    runs = []
    async with cache() as c:

        async def asked():
            async with RedLock(c, "k", lease=5):
                found = await c.get("k")
                if found is None:
                    runs.append(1)
                    await asyncio.sleep(0.5)
                    await c.set("k", "v")
                return await c.get("k")

        equal((await first_and_others(asked, 9), len(runs)), (["v"] * 10, 1))
        equal(await c.exists("k-lock"), False)


@feature("RedLock: not released by another owner", runs=IS_RESP)
async def _():
    async with cache() as c:
        async with RedLock(c, "k", lease=5) as _:
            await c.set("k-lock", "of another")
        equal(await c.get("k-lock"), "of another")


@feature("OptimisticLock: a value that has changed is not overwritten")
async def _():
    async with cache() as c:
        await c.set("k", "1")
        async with OptimisticLock(c, "k") as lock:
            equal(await lock.cas("2", ttl=60), True)
        async with OptimisticLock(c, "k") as lock:
            await c.set("k", "3")
            equal(await refused(OptimisticLockError, lock.cas("4")), True)
        equal(await c.get("k"), "3")


@feature("@cached, @cached_stampede, @multi_cached")
async def _():
    runs = []

    @cached(ttl=60, cache=CACHE, key_builder=lambda f, *a: f"plain-{a[0]}", serializer=JsonSerializer(), **PLACE)
    async def plain(number):
        runs.append("plain")
        return {"n": number}

    @cached_stampede(ttl=60, lease=5, cache=CACHE, key="one", serializer=JsonSerializer(), **PLACE)
    async def one():
        runs.append("one")
        await asyncio.sleep(0.5)
        return 1

    @multi_cached("ids", ttl=60, cache=CACHE, **PLACE)
    async def several(ids=None):
        runs.append(sorted(ids))
        return {key: f"value of {key}" for key in ids}

    equal([await plain(1), await plain(1), await plain(2)], [{"n": 1}, {"n": 1}, {"n": 2}])
    equal(await first_and_others(one, 7), [1] * 8)
    await several(ids=["a", "b"])
    equal(await several(ids=["b", "c"]), {"b": "value of b", "c": "value of c"})
    equal(runs, ["plain", "plain", "one", ["a", "b"], ["c"]])


end()
