"""cashews: its decorators, locks, limits, tags, transactions and client-side cache. See feature.py."""

import asyncio

from cashews import Cache, LockedError, RateLimitError
from cashews.exceptions import CircuitBreakerOpen

from feature import REDIS, between, end, equal, feature, versions

versions("cashews", "redis")


class opened:
    """A cache for one feature: connections belong to an event loop."""

    def __init__(self, **named):
        self.cache = Cache()
        self.cache.setup(f"{REDIS}/0", suppress=False, **named)

    async def __aenter__(self):
        await self.cache.init()
        return self.cache

    async def __aexit__(self, *_):
        await self.cache.close()


async def refused(error, awaited):
    try:
        await awaited
    except error:
        return True
    return False


async def refused_value(function):
    try:
        await function()
    except ValueError:
        pass


@feature("set, get, exist, delete, lifetimes")
async def _():
    async with opened() as cache:
        await cache.set("k", {"a": [1, None]}, expire=60)
        equal((await cache.get("k"), await cache.get("none", default=7)), ({"a": [1, None]}, 7))
        between(59, await cache.get_expire("k"), 60)
        equal((await cache.set("k", 1, exist=False), await cache.set("new", 1, exist=True)), (False, False))
        await cache.expire("k", 100)
        between(99, await cache.get_expire("k"), 100)
        await cache.set("short", 1, expire=0.2)
        await asyncio.sleep(0.3)
        equal((await cache.get("short"), await cache.delete("k"), await cache.exists("k")), (None, True, False))


@feature("set_many, get_many, scan, get_match, delete_match, size")
async def _():
    async with opened() as cache:
        await cache.set_many({f"a:{i}": i for i in range(200)}, expire=60)
        await cache.set("b:1", "x" * 1000)
        equal(await cache.get_many("a:1", "none", "a:2"), (1, None, 2))
        equal({key async for key in cache.scan("a:*")}, {f"a:{i}" for i in range(200)})
        equal({key: value async for key, value in cache.get_match("a:1?")}, {f"a:{i}": i for i in range(10, 20)})
        between(1000, await cache.get_size("b:1"), 4000)
        await cache.delete_match("a:*")
        equal([key async for key in cache.scan("*")], ["b:1"])


@feature("get_keys_count (DBSIZE)")
async def _():
    async with opened() as cache:
        await cache.set_many({f"a:{i}": i for i in range(201)}, expire=60)
        equal(await cache.get_keys_count(), 201)


@feature("incr with a lifetime, 8 tasks; bits; sets")
async def _():
    async with opened() as cache:
        await asyncio.gather(*(cache.incr("n", expire=60) for _ in range(800)))
        equal(await cache.incr("n", 5), 805)
        between(50, await cache.get_expire("n"), 60)
        equal(await cache.incr_bits("bits", 0, 3, size=4, by=2), (2, 2))
        equal(await cache.get_bits("bits", 0, 1, 3, size=4), (2, 0, 2))
        await cache.set_add("s", "a", "b", "c", expire=60)
        await cache.set_remove("s", "c")
        equal(set(await cache.set_pop("s", 10)), {"a", "b"})


@feature("lock: excludes, expires, is the owner's alone")
async def _():
    async with opened() as cache:
        now = []

        async def body():
            async with cache.lock("l", expire=10, check_interval=0.002):
                now.append(len(now))
                before = len(now)
                await asyncio.sleep(0.005)
                equal(len(now), before)

        await asyncio.gather(*(body() for _ in range(20)))
        equal(await cache.set_lock("m", "owner", expire=10), True)
        equal((await cache.set_lock("m", "other", expire=10), await cache.unlock("m", "other")), (False, False))
        equal((await cache.is_locked("m"), bool(await cache.unlock("m", "owner"))), (True, True))

        @cache.locked(ttl=10, key="f", wait=False)
        async def alone():
            await asyncio.sleep(0.2)

        first = asyncio.create_task(alone())
        await asyncio.sleep(0.1)
        equal((await refused(LockedError, alone()), await first), (True, None))


@feature("@cache, with lock and condition; @cache.invalidate")
async def _():
    async with opened() as cache:
        runs = []

        @cache(ttl="1m", key="user:{id}", lock=True)
        async def user(id):
            runs.append(id)
            await asyncio.sleep(0.1)
            return {"id": id}

        @cache.invalidate("user:{id}")
        async def changed(id):
            return id

        equal(await asyncio.gather(*(user(1) for _ in range(10))), [{"id": 1}] * 10)
        await user(2)
        await changed(1)
        await user(1)
        await user(2)
        equal(runs, [1, 2, 1])


@feature("early, soft, hit, failover")
async def _():
    async with opened() as cache:
        runs = []

        @cache.early(ttl=10, early_ttl=0.2, key="early")
        async def early():
            runs.append(1)
            return len(runs)

        equal([await early(), await early()], [1, 1])
        await asyncio.sleep(0.3)
        equal(await early(), 1)
        await asyncio.sleep(0.3)
        equal(await early(), 2)

        works = [True]

        @cache.soft(ttl=10, soft_ttl=0.2, key="soft")
        async def soft():
            if not works[0]:
                raise ValueError
            return "soft"

        @cache.failover(ttl=10, key="failover", exceptions=ValueError)
        async def failover():
            if not works[0]:
                raise ValueError
            return "failover"

        equal((await soft(), await failover()), ("soft", "failover"))
        works[0] = False
        await asyncio.sleep(0.3)
        equal((await soft(), await failover()), ("soft", "failover"))

        hits = []

        @cache.hit(ttl=10, cache_hits=2, key="hit")
        async def hit():
            hits.append(1)
            return len(hits)

        equal([await hit() for _ in range(5)], [1, 1, 1, 2, 2])


@feature("rate_limit, slice_rate_limit: exact")
async def _():
    async with opened() as cache:

        @cache.rate_limit(limit=10, period=60, key="fixed")
        async def fixed():
            return 1

        @cache.slice_rate_limit(limit=10, period=60, key="slice")
        async def sliced():
            return 1

        found = await asyncio.gather(*(refused(RateLimitError, fixed()) for _ in range(40)))
        equal(found.count(False), 10)
        # It counts the calls before the time of the client, so calls that overtake each other are not all counted.
        equal([await refused(RateLimitError, sliced()) for _ in range(40)].count(False), 10)


@feature("circuit_breaker, bloom")
async def _():
    async with opened() as cache:

        @cache.circuit_breaker(errors_rate=50, period=60, ttl=10, min_calls=2, key="breaker")
        async def breaks():
            raise ValueError

        found = [await refused(CircuitBreakerOpen, refused_value(breaks)) for _ in range(8)]
        equal((found[0], found[-1]), (False, True))

        @cache.bloom(capacity=1000, name="bloom:{email}")
        async def known(email):
            return email.startswith("a")

        for i in range(50):
            await known.set(f"a{i}")
        equal([await known(f"a{i}") for i in range(50)], [True] * 50)
        between(0, sum([await known(f"b{i}") for i in range(200)]), 20)


@feature("tags")
async def _():
    async with opened() as cache:
        cache.register_tag("all", "item:{id}")
        runs = []

        @cache(ttl="1m", key="item:{id}", tags=["all", "item:{id}:tag"])
        async def item(id):
            runs.append(id)
            return id

        for id in (1, 2, 1, 2):
            await item(id)
        await cache.delete_tags("item:1:tag")
        await item(1)
        await item(2)
        equal(runs, [1, 2, 1])
        await cache.delete_tags("all")
        await item(1)
        await item(2)
        equal(runs, [1, 2, 1, 1, 2])


@feature("transactions: commit and rollback, each mode")
async def _():
    async with opened() as cache:
        from cashews import TransactionMode

        for mode in TransactionMode:
            await cache.set("k", "old")
            async with cache.transaction(mode) as transaction:
                await cache.set("k", "lost")
                await transaction.rollback()
            equal(await cache.get("k"), "old")
            async with cache.transaction(mode):
                await cache.set("k", "new")
                await cache.incr("n")
            equal(await cache.get("k"), "new")
        equal(await cache.incr("n", 0), len(TransactionMode))


async def sees_changes(**named):
    async with opened(client_side=True, **named) as one, opened(client_side=True, **named) as other:
        await one.set("k", "old")
        equal((await one.get("k"), await other.get("k"), await other.get("k")), ("old", "old", "old"))
        await one.set("k", "new")
        for _ in range(300):
            if await other.get("k") == "new":
                break
            await asyncio.sleep(0.01)
        equal((await other.get("k"), await one.get("k")), ("new", "new"))
        await other.delete("k")
        await asyncio.sleep(0.2)
        equal(await one.get("k"), None)


@feature("client-side cache: another client's change is seen, RESP2")
async def _():
    await sees_changes(protocol=2)


@feature("client-side cache: another client's change is seen, RESP3")
async def _():
    await sees_changes()


@feature("clear")
async def _():
    async with opened() as cache:
        await cache.set("k", 1)
        await cache.clear()
        equal((await cache.get("k"), await cache.get_keys_count(), await cache.ping()), (None, 0, b"PONG"))


end()
