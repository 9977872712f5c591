"""Celery's results in Redis, with a worker in this process; its messages are in memory. See feature.py."""

import time

from celery import Celery, chain, chord, group
from celery.contrib.testing.worker import start_worker
from celery.exceptions import TimeoutError
from celery.result import GroupResult

from feature import PORT, REDIS, between, end, equal, feature, in_threads, raises, soon, versions

versions("celery", "redis")
app = Celery("check", broker="memory://", backend=f"{REDIS}/1")
app.conf.update(result_expires=100, result_extended=True, worker_hijack_root_logger=False, broker_pool_limit=0)
store = app.backend


@app.task(name="add")
def add(a, b):
    return a + b


@app.task(name="total")
def total(numbers):
    return sum(numbers)


@app.task(name="fails")
def fails():
    raise ValueError("so it is")


@feature("store_result, get_result, states, forget, lifetime")
def _():
    store.store_result("one", {"a": [1, None]}, "SUCCESS")
    result = app.AsyncResult("one")
    equal((result.state, result.get(timeout=5), app.AsyncResult("none").state), ("SUCCESS", {"a": [1, None]}, "PENDING"))
    between(98, store.client.ttl(store.get_key_for_task("one")), 100)
    store.store_result("one", None, "STARTED")
    equal(app.AsyncResult("one").state, "SUCCESS")
    result.forget()
    equal(app.AsyncResult("one").state, "PENDING")


@feature("get() waits for a result that is published")
def _():
    def body(index):
        if index == 0:
            time.sleep(0.3)
            store.store_result("late", 42, "SUCCESS")
            return 42
        return app.AsyncResult("late").get(timeout=10)

    equal(in_threads(2, body), [42, 42])
    raises(TimeoutError, app.AsyncResult("never").get, timeout=0.3)


@feature("get_many, GroupResult: save, restore, delete")
def _():
    names = [f"t{number}" for number in range(50)]
    for number, name in enumerate(names):
        store.store_result(name, number, "SUCCESS")
    saved = GroupResult("group", [app.AsyncResult(name) for name in names])
    saved.save()
    restored = GroupResult.restore("group", app=app)
    equal((restored.get(timeout=10), restored.successful()), (list(range(50)), True))
    restored.delete()
    equal(GroupResult.restore("group", app=app), None)


@feature("counters of chords without a worker")
def _():
    for ordered in (True, False):
        key = store.get_key_for_group("g", ".t")
        client = store.client
        for part in range(5):
            client.zadd(key, {f"part {part}": part}) if ordered else client.rpush(key, f"part {part}")
        found = client.zcount(key, "-inf", "+inf") if ordered else client.llen(key)
        equal((found, client.delete(key)), (5, 1))


with start_worker(app, perform_ping_check=False, pool="solo", loglevel="ERROR"):

    @feature("tasks of a worker: results, failures, chain, group")
    def _():
        equal(add.delay(1, 2).get(timeout=10), 3)
        raises(ValueError, fails.delay().get, timeout=10)
        equal(chain(add.s(1, 2), add.s(10))().get(timeout=10), 13)
        equal(group(add.s(number, 1) for number in range(20))().get(timeout=10), list(range(1, 21)))

    for ordered in (True, False):

        @feature(f"chords, {'in sorted sets' if ordered else 'in lists'}")
        def _():
            app.conf.result_backend_transport_options = {"result_chord_ordered": ordered}
            for number in (1, 5, 20):
                made = chord([add.s(part, 1) for part in range(number)])(total.s())
                equal(made.get(timeout=20), sum(range(1, number + 1)))
            soon(lambda: not [key for key in store.client.scan_iter("*.j")])

    end()
