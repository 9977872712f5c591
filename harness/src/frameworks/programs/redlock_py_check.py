"""redlock-py with one server. See feature.py."""

import time

import redis
import redlock

from feature import PORT, between, end, equal, feature, in_threads, versions

versions("redlock-py", "redis")
PLACE = [{"host": "127.0.0.1", "port": PORT, "db": 0}]
r = redis.Redis(port=PORT)


@feature("lock, unlock, owner")
def _():
    one = redlock.Redlock(PLACE, retry_count=1)
    found = one.lock("l", 10_000)
    between(9_000, found.validity, 10_000)
    equal(one.lock("l", 10_000), False)
    one.unlock(found._replace(key=b"of another"))
    equal(one.lock("l", 10_000), False)
    one.unlock(found)
    equal(bool(one.lock("l", 10_000)), True)


@feature("it expires")
def _():
    one = redlock.Redlock(PLACE, retry_count=1)
    one.lock("l", 200)
    time.sleep(0.3)
    equal(bool(one.lock("l", 200)), True)


@feature("8 threads exclude each other")
def _():
    def body(_):
        mine = redlock.Redlock(PLACE, retry_count=10_000, retry_delay=0.005)
        for _ in range(5):
            held = mine.lock("l", 10_000)
            now = int(r.get("n") or 0)
            time.sleep(0.0005)
            r.set("n", now + 1)
            mine.unlock(held)

    in_threads(8, body)
    equal(r.get("n"), b"40")


end()
