"""Flask-Caching with Redis, or with memcached by python-memcached. See feature.py."""

import time

from flask import Flask, request
from flask_caching import Cache

from feature import IS_RESP, PORT, REDIS, end, equal, feature, soon, versions

versions("Flask-Caching", "redis" if IS_RESP else "python-memcached")

app = Flask("check")
if IS_RESP:
    settings = {"CACHE_TYPE": "RedisCache", "CACHE_REDIS_URL": f"{REDIS}/0"}
else:
    settings = {"CACHE_TYPE": "MemcachedCache", "CACHE_MEMCACHED_SERVERS": [f"127.0.0.1:{PORT}"]}
cache = Cache(app, config={**settings, "CACHE_KEY_PREFIX": "app_", "CACHE_DEFAULT_TIMEOUT": 60})
app.app_context().push()
runs = []


def ran(name):
    runs.append(name)
    return f"{name} {len(runs)}"


@app.route("/plain")
@cache.cached()
def plain():
    return ran("plain")


@app.route("/query")
@cache.cached(query_string=True)
def query():
    return ran(f"query {request.args.get('q')}")


@app.route("/short")
@cache.cached(timeout=1, unless=lambda: "fresh" in request.args)
def short():
    return ran("short")


@cache.memoize()
def total(a, b=0):
    runs.append("total")
    return a + b


class Person:
    def __init__(self, name):
        self.name = name

    def __repr__(self):
        return f"Person({self.name})"

    @cache.memoize()
    def greeting(self, word):
        return ran(f"{word} {self.name}")


def got(path):
    return app.test_client().get(path).text


@feature("set, get, add, delete, has")
def _():
    equal(cache.set("k", {"a": [1, None]}), True)
    equal((cache.get("k"), cache.add("k", 1), cache.add("new", 2), cache.get("new")), ({"a": [1, None]}, False, True, 2))
    equal((cache.has("k"), cache.delete("k"), cache.has("k"), cache.get("k")), (True, True, False, None))


@feature("several at a time")
def _():
    pairs = {f"k{i}": i for i in range(200)}
    cache.set_many(pairs)
    equal(cache.get_many(*pairs), list(range(200)))
    equal(cache.get_dict("k1", "none"), {"k1": 1, "none": None})
    cache.delete_many(*[f"k{i}" for i in range(199)])
    equal([key for key in pairs if cache.get(key) is not None], ["k199"])


@feature("timeouts")
def _():
    cache.set("short", 1, timeout=1)
    cache.set("long", 1, timeout=60)
    equal(cache.get("short"), 1)
    time.sleep(2.1)
    equal((cache.get("short"), cache.get("long")), (None, 1))


@feature("inc and dec")
def _():
    counted = cache.cache
    counted.set("n", 5)
    equal((counted.inc("n", 3), counted.dec("n", 2)), (8, 6))


@feature("@cached views, by path, by query, unless, delete")
def _():
    runs.clear()
    equal([got("/plain"), got("/plain")], ["plain 1", "plain 1"])
    found = [got("/query?q=1&p=2"), got("/query?p=2&q=1"), got("/query?q=2")]
    equal(found, ["query 1 2", "query 1 2", "query 2 3"])
    equal([got("/short"), got("/short?fresh=1"), got("/short")], ["short 4", "short 5", "short 4"])
    soon(lambda: got("/short") != "short 4")
    cache.delete("view//plain")
    assert got("/plain") != "plain 1"


@feature("@memoize, delete_memoized of one call and of all")
def _():
    runs.clear()
    equal([total(1, 2), total(1, b=2), total(2), total(2), len(runs)], [3, 3, 2, 2, 2])
    cache.delete_memoized(total, 1, 2)
    equal([total(1, 2), total(2), len(runs)], [3, 2, 3])
    cache.delete_memoized(total)
    equal([total(1, 2), total(2), len(runs)], [3, 2, 5])


@feature("@memoize of methods")
def _():
    runs.clear()
    a, b = Person("a"), Person("b")
    equal([a.greeting("hi"), a.greeting("hi"), b.greeting("hi")], ["hi a 1", "hi a 1", "hi b 2"])
    cache.delete_memoized(Person.greeting)
    equal(a.greeting("hi"), "hi a 3")


@feature("clear, of its own prefix alone" if IS_RESP else "clear")
def _():
    cache.set("k", 1)
    if IS_RESP:
        import redis

        other = redis.Redis(port=PORT)
        other.set("of another", 1)
    equal((cache.clear(), cache.get("k")), (True, None))
    assert not IS_RESP or other.get("of another") == b"1"


end()
