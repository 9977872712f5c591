"""django-redis: what it has beyond Django's own backend. See feature.py."""

import time

from feature import REDIS, between, end, equal, feature, in_threads, raises, soon, versions

import django
from django.conf import settings

CLIENT = "django_redis.client"


def of(database, client=f"{CLIENT}.DefaultClient", **options):
    return {
        "BACKEND": "django_redis.cache.RedisCache",
        "LOCATION": f"{REDIS}/{database}",
        "OPTIONS": {"CLIENT_CLASS": client, **options},
    }


settings.configure(
    CACHES={
        "default": of(0),
        "other": of(1),
        "zlib": of(0, COMPRESSOR="django_redis.compressors.zlib.ZlibCompressor"),
        "json": of(0, SERIALIZER="django_redis.serializers.json.JSONSerializer"),
        "herd": of(0, client=f"{CLIENT}.HerdClient"),
        "sharded": {**of(0, client=f"{CLIENT}.ShardClient"), "LOCATION": [f"{REDIS}/2", f"{REDIS}/3"]},
    },
    SESSION_ENGINE="django.contrib.sessions.backends.cache",
    SECRET_KEY="for tests",
    USE_TZ=True,
)
django.setup()

from django.contrib.sessions.backends.cache import SessionStore
from django.core.cache import cache, caches
from django_redis import get_redis_connection

versions("django-redis", "Django", "redis")


@feature("set, get, add, delete, nx")
def _():
    for value in ("text", b"\x00\xff", {"a": [1, 2.5, None]}, 7, True):
        cache.set("k", value)
        equal(cache.get("k"), value)
    equal((cache.set("k", 1, nx=True), cache.set("new", 1, nx=True)), (False, True))
    equal((cache.add("k", 1), bool(cache.delete("k")), bool(cache.delete("k"))), (False, True, False))


@feature("get_many, set_many, delete_many")
def _():
    pairs = {f"k{i}": i for i in range(300)}
    cache.set_many(pairs, 60)
    equal(dict(cache.get_many([*pairs, "none"])), pairs)
    equal(cache.delete_many([f"k{i}" for i in range(299)]), 299)
    equal(dict(cache.get_many(pairs)), {"k299": 299})


@feature("ttl, pttl, expire, pexpire, expire_at, persist, touch")
def _():
    cache.set("k", 1, 60)
    between(59, cache.ttl("k"), 60)
    equal(cache.expire("k", 100), True)
    between(99, cache.ttl("k"), 100)
    equal(cache.pexpire("k", 5500), True)
    between(5000, cache.pttl("k"), 5500)
    equal(cache.expire_at("k", int(time.time()) + 200), True)
    between(198, cache.ttl("k"), 200)
    equal((cache.persist("k"), cache.ttl("k"), cache.ttl("missing")), (True, None, 0))
    equal((cache.touch("k", 1), cache.touch("missing", 1)), (True, False))
    soon(lambda: cache.get("k") is None)


@feature("incr, 8 threads; it keeps the lifetime")
def _():
    cache.set("n", 0, 60)
    in_threads(8, lambda _: [caches["default"].incr("n") for _ in range(200)])
    equal((cache.get("n"), cache.decr("n", 600)), (1600, 1000))
    between(50, cache.ttl("n"), 60)
    raises(ValueError, cache.incr, "missing")
    equal(cache.incr("missing", ignore_key_check=True), 1)


@feature("keys, iter_keys, delete_pattern")
def _():
    cache.set_many({f"a{i}": i for i in range(200)})
    cache.set_many({f"b{i}": i for i in range(50)})
    equal(set(cache.keys("a*")), {f"a{i}" for i in range(200)})
    equal(set(cache.iter_keys("b*")), {f"b{i}" for i in range(50)})
    equal((cache.delete_pattern("a*"), len(cache.keys("*"))), (200, 50))


@feature("lock: excludes, expires, 8 threads")
def _():
    def body(_):
        for _ in range(5):
            with caches["default"].lock("l", timeout=10, sleep=0.002):
                now = cache.get("n") or 0
                time.sleep(0.0005)
                cache.set("n", now + 1)

    in_threads(8, body)
    equal(cache.get("n"), 40)
    assert cache.lock("short", timeout=0.3).acquire(blocking=False)
    equal(cache.lock("short").acquire(blocking=False), False)
    equal(cache.lock("short").acquire(blocking_timeout=3), True)


@feature("sets")
def _():
    equal(cache.sadd("s1", "a", "b", "c"), 3)
    cache.sadd("s2", "b", "c", "d")
    equal((cache.scard("s1"), cache.smembers("s1")), (3, {"a", "b", "c"}))
    equal((cache.sinter("s1", "s2"), cache.sdiff("s1", "s2")), ({"b", "c"}, {"a"}))
    equal((cache.sunion("s1", "s2"), cache.smismember("s1", "a", "z")), ({"a", "b", "c", "d"}, [True, False]))
    equal((cache.sinterstore("s3", "s1", "s2"), cache.smove("s1", "s3", "a"), cache.scard("s3")), (2, True, 3))
    equal((set(cache.sscan_iter("s3")), cache.srem("s3", "a")), ({"a", "b", "c"}, 1))


@feature("hashes")
def _():
    equal((cache.hset("h", "a", 1), cache.hset("h", "b", [2])), (1, 1))
    equal((cache.hlen("h"), set(cache.hkeys("h")), cache.hexists("h", "a")), (2, {"a", "b"}, True))
    equal((cache.hdel("h", "a"), cache.hexists("h", "a")), (1, False))


@feature("sorted sets")
def _():
    equal(cache.zadd("z", {"a": 1, "b": 2, "c": 3}), 3)
    equal((cache.zcard("z"), cache.zrange("z", 0, -1), cache.zrank("z", "b")), (3, ["a", "b", "c"], 1))
    equal((cache.zincrby("z", 5, "a"), cache.zrevrange("z", 0, 0), cache.zscore("z", "a")), (6.0, ["a"], 6.0))
    equal((cache.zcount("z", 2, 3), cache.zpopmin("z"), cache.zrem("z", "c")), (2, ("b", 2.0), 1))


@feature("clear of database 1 leaves database 0")
def _():
    cache.set("k", 0)
    caches["other"].set("k", 1)
    caches["other"].clear()
    equal((cache.get("k"), caches["other"].get("k")), (0, None))


@feature("compressor, JSON serializer, raw client")
def _():
    caches["zlib"].set("k", "x" * 10_000)
    assert get_redis_connection("zlib").strlen(":1:k") < 1_000
    equal(caches["zlib"].get("k"), "x" * 10_000)
    caches["json"].set("j", {"a": [1, "b"]})
    equal((caches["json"].get("j"), get_redis_connection("json").get(":1:j")), ({"a": [1, "b"]}, b'{"a": [1, "b"]}'))


@feature("HerdClient, ShardClient")
def _():
    caches["herd"].set("k", 1, 60)
    equal(caches["herd"].get("k"), 1)
    sharded = caches["sharded"]
    sharded.set_many({f"k{i}": i for i in range(100)})
    equal(dict(sharded.get_many([f"k{i}" for i in range(100)])), {f"k{i}": i for i in range(100)})
    equal(sharded.delete_pattern("k*"), 100)


@feature("versions, get_or_set, sessions")
def _():
    cache.set("v", "one")
    cache.incr_version("v", 4)
    equal((cache.get("v"), cache.get("v", version=5)), (None, "one"))
    equal((cache.get_or_set("k", lambda: 5), cache.get_or_set("k", 6)), (5, 5))
    session = SessionStore()
    session["user"] = 42
    session.create()
    equal(SessionStore(session.session_key)["user"], 42)


@feature("asynchronous methods")
async def _():
    await cache.aset("k", 1, 60)
    equal((await cache.aget("k"), await cache.aincr("k", 4), await cache.aget_many(["k"])), (1, 5, {"k": 5}))


end()
