"""python-redis-lock, whose waiters use BLPOP. See feature.py."""

import time

import redis
import redis_lock

from feature import PORT, between, end, equal, feature, in_threads, raises, versions

versions("python-redis-lock", "redis")


def client():
    # A waiter may wait longer than redis-py's time limit of 5 s for an answer.
    return redis.Redis(port=PORT, socket_timeout=None)


r = client()


@feature("acquire, release, owner")
def _():
    one, other = redis_lock.Lock(r, "l", expire=60), redis_lock.Lock(r, "l", expire=60)
    equal((one.acquire(), other.acquire(blocking=False), one.locked()), (True, False, True))
    equal(other.get_owner_id(), one.id)
    raises(redis_lock.NotAcquired, other.release)
    one.release()
    equal((other.acquire(blocking=False), one.locked()), (True, True))
    other.release()
    equal(one.locked(), False)


@feature("a waiter is woken by the release (BLPOP)")
def _():
    def body(index):
        lock = redis_lock.Lock(client(), "l", expire=60)
        if index == 0:
            lock.acquire()
            time.sleep(0.5)
            lock.release()
            return 0
        time.sleep(0.2)
        begun = time.monotonic()
        equal(lock.acquire(timeout=10), True)
        return time.monotonic() - begun

    between(0.2, in_threads(2, body)[1], 1)


@feature("a waiter gives up, and gets it when it expires")
def _():
    redis_lock.Lock(r, "l", expire=2).acquire()
    waiter = redis_lock.Lock(client(), "l", expire=60)
    equal(waiter.acquire(timeout=1), False)
    equal(waiter.acquire(timeout=3), True)


@feature("8 threads exclude each other")
def _():
    def body(_):
        c = client()
        for _ in range(10):
            with redis_lock.Lock(c, "l", expire=60):
                now = int(c.get("n") or 0)
                time.sleep(0.0005)
                c.set("n", now + 1)

    in_threads(8, body)
    equal(r.get("n"), b"80")


@feature("extend, automatic renewal")
def _():
    lock = redis_lock.Lock(r, "l", expire=10)
    lock.acquire()
    lock.extend(100)
    between(99, r.ttl("lock:l"), 100)
    lock.release()
    raises(redis_lock.NotAcquired, lock.extend, 10)
    with redis_lock.Lock(r, "renewed", expire=1, auto_renewal=True):
        time.sleep(2.2)
        equal(redis_lock.Lock(client(), "renewed").acquire(blocking=False), False)


@feature("reset, reset_all")
def _():
    names = [f"l{number}" for number in range(20)]
    for name in names:
        redis_lock.Lock(r, name, expire=60).acquire()
    redis_lock.Lock(r, "l0").reset()
    equal((r.exists("lock:l0"), r.exists("lock:l1")), (0, 1))
    redis_lock.reset_all(r)
    equal([r.exists(f"lock:{name}") for name in names], [0] * 20)


end()
