"""A client that remembers what it wrote: of two servers behind a proxy, or of a cluster. `client.py KIND SECONDS PORT`.

One server is killed meanwhile, and comes back. While it is away its keys are errors. A value that comes back is one
that was written, and no older than the last that was answered. A line a check: "ok" or "not ok"."""

import os
import random
import sys
import time

kind, seconds, port = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])


def connect():
    if kind == "memcached":
        from pymemcache.client.base import Client

        return Client(("127.0.0.1", port), timeout=5, connect_timeout=5)
    import redis

    if kind == "redis":
        # A proxy supports neither HELLO nor CLIENT.
        return redis.Redis(port=port, socket_timeout=5, protocol=2, lib_name=None, lib_version=None)
    from redis.cluster import ClusterNode, RedisCluster

    return RedisCluster(startup_nodes=[ClusterNode("127.0.0.1", port)], protocol=2, socket_timeout=5)


def put(client, key, value):
    client.set(key, value, noreply=False) if kind == "memcached" else client.set(key, value)


chance = random.Random(7)
may_be, hits, sets, wrong, slowest = {}, 0, 0, 0, 0.0
errors = []
client = None
begun = time.time()
while time.time() - begun < seconds:
    key = f"{kind}{chance.randrange(5000)}"
    asked = time.time()
    try:
        client = client or connect()
        if chance.random() < 0.4:
            value = os.urandom(8).hex() * chance.choice([1, 20, 400])
            # Until the request is answered, the value may be the old or the new one.
            may_be.setdefault(key, {None}).add(value)
            put(client, key, value)
            may_be[key] = {value}
            sets += 1
        else:
            found = client.get(key)
            if found is not None:
                hits += 1
                wrong += found.decode() not in may_be.get(key, ())
    except Exception as error:
        errors.append((time.time() - begun, repr(error)[:90]))
        if kind != "cluster":
            client = None
        time.sleep(0.01)
    slowest = max(slowest, time.time() - asked)

last = errors[-1][0] if errors else 0.0


def check(what, held):
    print("ok" if held else "not ok", what, flush=True)


check(f"{wrong} of {hits} hits wrong, {sets} sets", wrong == 0 and hits > 1000 and sets > 1000)
check(f"slowest request {slowest * 1000:.0f} ms", slowest < 5)
check(f"{len(errors)} errors while a node was away", len(errors) > 0)
# Proxies and clients notice the failure within seconds.
check(f"none later than {last:.0f} s of {seconds:.0f} s" + (f": {errors[-1][1]}" if errors else ""), last < seconds - 3)
