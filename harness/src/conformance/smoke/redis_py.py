"""redis-py against a server on this port, in both versions of the protocol. A line a check: "ok" or "not ok"."""

import sys

import redis


def check(name, held):
    print("ok" if held else "not ok", name, flush=True)


def refused(call):
    try:
        call()
    except redis.ResponseError:
        return True
    return False


for protocol in (2, 3):
    r = redis.Redis(port=int(sys.argv[1]), protocol=protocol)
    r.flushall()
    check("set and get of all bytes", r.set("b", bytes(range(256))) and r.get("b") == bytes(range(256)))
    check("a miss", r.get("none") is None)
    check("several at a time", r.mset({"m1": "1", "m2": "2"}) and r.mget("m1", "none", "m2") == [b"1", None, b"2"])
    check("set if absent", r.set("b", "x", nx=True) is None and r.set("new", "x", nx=True))
    check("lifetimes", r.set("t", "v", ex=100) and 0 < r.ttl("t") <= 100 and r.persist("t") and r.ttl("t") == -1)
    check("counting", r.incrby("n", 5) == 5 and r.decr("n") == 4 and r.incrbyfloat("f", 1.5) == 1.5)
    check("parts", r.append("a", "abc") == 3 and r.getrange("a", 1, 1) == b"b" and r.setrange("a", 1, "X") == 3)
    check("take away", r.getdel("a") == b"aXc" and r.exists("a") == 0)
    pipe = r.pipeline(transaction=False)
    for i in range(100):
        pipe.set(f"p{i}", i).get(f"p{i}")
    check("a pipeline", pipe.execute()[1::2] == [str(i).encode() for i in range(100)])
    with r.pipeline() as pipe:
        pipe.watch("n")
        pipe.multi()
        pipe.set("n", 10)
        check("a transaction", pipe.execute() == [True])
        pipe.watch("n")
        r.set("n", 11)
        pipe.multi()
        pipe.set("n", 12)
        try:
            pipe.execute()
            check("what was watched and changed", False)
        except redis.WatchError:
            check("what was watched and changed", r.get("n") == b"11")
    check("a scan", len(set(r.scan_iter(match="p*", count=10))) == 100)
    check("rename and type", r.rename("new", "newer") and r.type("newer") == b"string")
    check("what there is not is an error", refused(lambda: r.xlen("stream")))
    check("info and client", r.info()["redis_version"] and r.client_setname("smoke") and r.client_getname() in (b"smoke", "smoke"))
    check("a long value", r.set("long", b"x" * 1_000_000) and len(r.get("long")) == 1_000_000)
    check("flush", r.flushdb() and r.dbsize() == 0)
