"""redis-py: locks, transactions, messages, scripts, the client-side cache. See feature.py."""

import threading
import time

import redis
import redis.asyncio
from redis.cache import CacheConfig

from feature import IS_RESP, PORT, between, end, equal, feature, in_threads, raises, soon, versions

versions("redis")
assert IS_RESP


def client(**named):
    return redis.Redis(port=PORT, **named)


r = client(decode_responses=True)


@feature("strings and lifetimes, RESP2 and RESP3")
def _():
    for protocol in (2, 3):
        c = client(protocol=protocol)
        everything = bytes(range(256)) * 40
        c.set("b", everything, ex=100)
        equal(c.get("b"), everything)
        between(99_000, c.pttl("b"), 100_000)
        equal(c.set("b", "x", nx=True), None)
        equal(c.set("b", "y", xx=True, get=True), everything)
        equal(c.getex("b", px=5000), b"y")
        between(4_000, c.pttl("b"), 5_000)
        c.mset({"m1": 1, "m2": 2})
        equal(c.mget("m1", "none", "m2"), [b"1", None, b"2"])
        equal(c.getdel("m1"), b"1")
        equal(c.delete("m1", "m2", "b"), 2)


@feature("a key expires")
def _():
    r.set("k", "v", px=200)
    equal(r.get("k"), "v")
    time.sleep(0.3)
    equal(r.get("k"), None)


@feature("incr, 8 threads")
def _():
    in_threads(8, lambda _: [client().incr("n") for _ in range(200)])
    equal(r.get("n"), "1600")


@feature("hashes, sets, sorted sets, lists")
def _():
    r.hset("h", mapping={"a": 1, "b": 2})
    equal(r.hincrby("h", "a", 4), 5)
    equal(r.hgetall("h"), {"a": "5", "b": "2"})
    r.sadd("s1", "a", "b", "c")
    r.sadd("s2", "b", "c", "d")
    equal(r.sinter("s1", "s2"), {"b", "c"})
    r.zadd("z", {"a": 1, "b": 2.5, "c": 3})
    equal(r.zrange("z", 0, -1, withscores=True)[1][1], 2.5)
    equal(r.zrevrank("z", "a"), 2)
    equal(r.zrangebyscore("z", "(1", "+inf"), ["b", "c"])
    r.rpush("l", *range(10))
    equal(r.lrange("l", 2, 4), ["2", "3", "4"])
    equal(r.ltrim("l", 0, 1) and r.llen("l"), 2)


@feature("a blocking pop is woken")
def _():
    found = []
    waiter = threading.Thread(target=lambda: found.append(client().blpop("q", timeout=5)))
    waiter.start()
    time.sleep(0.2)
    r.rpush("q", "x")
    waiter.join()
    equal(found, [(b"q", b"x")] if isinstance(found[0], tuple) else [[b"q", b"x"]])


@feature("scan_iter, 1000 keys")
def _():
    r.mset({f"k{i}": i for i in range(1000)})
    r.mset({f"other{i}": i for i in range(100)})
    equal(set(r.scan_iter(match="k*", count=50)), {f"k{i}" for i in range(1000)})


@feature("SELECT: flushdb of one database leaves the other")
def _():
    other = client(db=1, decode_responses=True)
    r.set("k", "0")
    other.set("k", "1")
    equal((r.get("k"), other.get("k"), other.dbsize()), ("0", "1", 1))
    other.flushdb()
    equal((r.get("k"), other.get("k"), r.dbsize()), ("0", None, 1))


@feature("pipeline without a transaction")
def _():
    pipe = r.pipeline(transaction=False)
    for i in range(500):
        pipe.set(f"p{i}", i).get(f"p{i}")
    equal(pipe.execute()[1::2], [str(i) for i in range(500)])


@feature("MULTI and EXEC")
def _():
    pipe = r.pipeline()
    equal(pipe.set("a", 1).incr("a").sadd("s", "x").get("a").execute(), [True, 2, 1, "2"])
    r.set("text", "x")
    found = r.pipeline().incr("a").incr("text").incr("a").execute(raise_on_error=False)
    equal((found[0], type(found[1]), found[2]), (3, redis.ResponseError, 4))


@feature("WATCH: a changed key ends the transaction")
def _():
    r.set("n", 10)
    with r.pipeline() as pipe:
        pipe.watch("n")
        r.set("n", 11)
        pipe.multi()
        pipe.set("n", 12)
        raises(redis.WatchError, pipe.execute)
    equal(r.get("n"), "11")


@feature("WATCH: transaction(), 4 threads")
def _():
    def more(pipe):
        now = int(pipe.get("n") or 0)
        pipe.multi()
        pipe.set("n", now + 1)

    in_threads(4, lambda _: [client().transaction(more, "n") for _ in range(25)])
    equal(r.get("n"), "100")


@feature("Lock: acquire, release, owner")
def _():
    one, other = r.lock("l", timeout=10), r.lock("l", timeout=10)
    assert one.acquire() and one.locked() and one.owned() and not other.owned()
    equal(other.acquire(blocking=False), False)
    raises(redis.exceptions.LockError, other.release)
    one.release()
    assert not one.locked() and other.acquire(blocking=False)
    other.release()
    equal(r.exists("l"), 0)


@feature("Lock: extend and reacquire")
def _():
    lock = r.lock("l", timeout=2)
    lock.acquire()
    lock.extend(10)
    between(10_000, r.pttl("l"), 12_000)
    lock.extend(5, replace_ttl=True)
    between(4_000, r.pttl("l"), 5_000)
    lock.reacquire()
    between(1_000, r.pttl("l"), 2_000)
    r.set("l", "of another")
    raises(redis.exceptions.LockNotOwnedError, lock.extend, 1)
    raises(redis.exceptions.LockNotOwnedError, lock.reacquire)
    raises(redis.exceptions.LockNotOwnedError, lock.release)


@feature("Lock: a waiter gets it when it expires")
def _():
    r.lock("l", timeout=0.5).acquire()
    waiter = r.lock("l", timeout=10, sleep=0.02)
    equal(waiter.acquire(blocking_timeout=0.1), False)
    equal(waiter.acquire(blocking_timeout=2), True)


@feature("Lock: 8 threads exclude each other")
def _():
    def body(_):
        c = client()
        for _ in range(10):
            with c.lock("l", timeout=10, sleep=0.001):
                now = int(c.get("n") or 0)
                time.sleep(0.0005)
                c.set("n", now + 1)

    in_threads(8, body)
    equal(r.get("n"), "80")


@feature("publish and subscribe, channels and patterns")
def _():
    heard = r.pubsub(ignore_subscribe_messages=True)
    heard.subscribe("news")
    heard.psubscribe("n*")
    soon(lambda: r.publish("news", "x") == 2)
    messages = []
    soon(lambda: messages.append(heard.get_message(timeout=1)) or len([m for m in messages if m]) >= 2)
    found = sorted(m["type"] for m in messages if m)[:2]
    equal(found, ["message", "pmessage"])
    heard.close()


@feature("scripts: register_script, also after SCRIPT FLUSH and in a pipeline")
def _():
    script = r.register_script("redis.call('SET', KEYS[1], ARGV[1]) return redis.call('INCRBY', KEYS[1], 5)")
    equal(script(keys=["n"], args=[10]), 15)
    r.script_flush()
    equal(script(keys=["n"], args=[20]), 25)
    r.script_flush()
    pipe = r.pipeline()
    script(keys=["n"], args=[1], client=pipe)
    pipe.get("n")
    equal(pipe.execute(), [6, "6"])


@feature("client-side cache (RESP3): hits, and another client's change is seen")
def _():
    cached = client(protocol=3, cache_config=CacheConfig(), decode_responses=True)
    r.set("k", "old")
    equal([cached.get("k"), cached.get("k")], ["old", "old"])
    equal(cached.get_cache().size, 1)
    r.set("k", "new")
    soon(lambda: cached.get("k") == "new")
    r.flushall()
    soon(lambda: cached.get("k") is None)


@feature("asyncio: pipeline, messages, Lock")
async def _():
    a = redis.asyncio.Redis(port=PORT, decode_responses=True)
    async with a.pipeline() as pipe:
        equal(await pipe.set("a", 1).incr("a").execute(), [True, 2])
    async with a.pubsub(ignore_subscribe_messages=True) as heard:
        await heard.subscribe("news")
        await heard.get_message(timeout=1)
        await a.publish("news", "x")
        message = None
        for _ in range(5):
            message = message or await heard.get_message(timeout=1)
        equal(message["data"], "x")
    async with a.lock("l", timeout=5) as lock:
        assert await lock.owned()
        equal(await a.lock("l").acquire(blocking=False), False)
    equal(await a.exists("l"), 0)
    await a.aclose()


@feature("a connection that the server has closed is opened again")
def _():
    c = client(decode_responses=True, retry_on_error=[redis.ConnectionError])
    c.set("k", "v")
    r.client_kill_filter(_id=c.client_id())
    equal(c.get("k"), "v")


end()
