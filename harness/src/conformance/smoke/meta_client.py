"""meta-memcache against a server on this port. A line a check: "ok" or "not ok"."""

import sys

from meta_memcache import CacheClient, Key, ServerAddress, connection_pool_factory_builder

cache = CacheClient.cache_client_from_servers(
    servers=[ServerAddress("127.0.0.1", int(sys.argv[1]))],
    connection_pool_factory_fn=connection_pool_factory_builder(),
)


def check(name, held):
    print("ok" if held else "not ok", name, flush=True)


check("set and get", cache.set(Key("a"), "value", ttl=100) and cache.get(Key("a")) == "value")
check("a miss", cache.get(Key("none")) is None)
check("any object", cache.set(Key("o"), {"x": [1, 2]}, ttl=0) and cache.get(Key("o")) == {"x": [1, 2]})
check("several at a time", cache.multi_get([Key("a"), Key("none")]) == {Key("a"): "value", Key("none"): None})
check("counting", cache.delta_initialize(Key("n"), 1, initial_value=5, initial_ttl=100) and cache.delta_and_get(Key("n"), 2) == 7)
check("compare and set", (cache.get_cas(Key("a"))[1] or 0) > 0)
check("a lease", cache.touch(Key("a"), ttl=50) and cache.get_or_lease.__name__ == "get_or_lease")
check("take away", cache.delete(Key("a")) and cache.get(Key("a")) is None)
check("a long key", cache.set(Key("k" * 400), "long", ttl=10) and cache.get(Key("k" * 400)) == "long")
