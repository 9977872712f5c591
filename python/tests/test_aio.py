"""The cache for event loops."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from pathlib import Path
from typing import Any

import larder
import pytest
from conftest import file_cache
from larder.aio import _of_running_loop


@pytest.fixture(params=["memory", "file"])
def cache(request: pytest.FixtureRequest, path: Path) -> Any:
    cache = larder.Cache(memory="8M") if request.param == "memory" else file_cache(path)
    yield larder.AsyncCache(cache)
    cache.close()


def run(coroutine: Any) -> Any:
    return asyncio.run(asyncio.wait_for(coroutine, 60))


def test_the_calls_have_the_same_names(cache: larder.AsyncCache) -> None:
    async def calls() -> None:
        await cache.set("key", {"flour": "rye"}, ttl=60)
        assert await cache.get("key") == {"flour": "rye"}
        assert await cache.get("nothing", 5) == 5
        assert await cache.get_view("text", b"none") == b"none"
        assert await cache.add("key", 1) is False and await cache.add("new", 1) is True
        assert await cache.has_key("new") and not await cache.has_key("nothing")
        assert await cache.incr("new", 41) == 42 and await cache.decr("new", 2) == 40
        with pytest.raises(KeyError):
            await cache.incr("nothing", default=None)
        assert await cache.pop("new") == 40 and await cache.pop("new", None) is None
        with pytest.raises(KeyError, match="new"):
            await cache.pop("new")
        await cache.set_many({"a": 1, "b": 2}, ttl=60)
        assert await cache.get_many(["a", "b", "c"]) == {"a": 1, "b": 2}
        assert await cache.touch("a", 0) and not await cache.touch("a", 5)
        assert await cache.expire("b", 5)
        assert await cache.delete_many(["a", "b"]) == 1
        assert await cache.delete("key") is True and await cache.delete("key") is False
        await cache.set("view", b"rye")
        assert bytes(await cache.get_view("view")) == b"rye"
        assert [key async for key in cache] == [b"view"]
        assert set(await cache.flush()) == {"objects", "bytes", "refused", "lost"}
        await cache.clear()
        assert await cache.get("view") is None
        assert "hit_ratio" in cache.stats()
        for call in (cache.get(5), cache.set("key", object), cache.incr("key", 1, None)):  # type: ignore[arg-type]
            with pytest.raises((TypeError, AttributeError, KeyError, larder.Error)):
                await call
                await cache.incr("key")
        await cache.close()
        with pytest.raises(larder.ClosedError):
            await cache.get("key")

    run(calls())


def test_eight_thousand_reads_of_flash_take_no_thread(path: Path) -> None:
    sync = file_cache(path, memory="16M", flash="128M")
    value = bytes(8192)
    count = 8000
    for number in range(count):
        sync.set(f"key {number}", value)
    sync.flush()
    cache = larder.AsyncCache(sync)

    async def reads() -> tuple[int, int, int]:
        await cache.get("key 0")
        before = threading.active_count(), _os_threads()
        tasks = [asyncio.create_task(cache.get(f"key {number}")) for number in range(count)]
        most_waiting, most_threads = 0, 0
        while not all(task.done() for task in tasks):
            most_waiting = max(most_waiting, len(_of_running_loop().bridge))
            most_threads = max(most_threads, _os_threads())
            await asyncio.sleep(0)
        found = [task.result() for task in tasks]
        assert all(it is None or it == value for it in found)
        assert threading.active_count() == before[0]
        return sum(it is not None for it in found), most_waiting, most_threads - before[1]

    found, most_waiting, more_threads = run(reads())
    assert found > count * 0.9
    assert most_waiting > 100, "most are not in DRAM, so they had to wait"
    assert more_threads <= 1, "the ring of the file may start one thread"
    sync.close()


def _os_threads() -> int:
    status = Path("/proc/self/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("Threads")).split()[1])


def test_a_value_is_made_once_among_tasks_and_threads(cache: larder.AsyncCache) -> None:
    made: list[str] = []

    async def bake() -> str:
        made.append("task")
        await asyncio.sleep(0.3)
        return "rye"

    def bake_now() -> str:
        made.append("thread")
        time.sleep(0.3)
        return "rye"

    async def calls() -> list[Any]:
        tasks = [asyncio.create_task(cache.get_or_set("key", bake)) for _ in range(50)]
        threads = [
            asyncio.create_task(asyncio.to_thread(cache.sync.get_or_set, "key", bake_now))
            for _ in range(4)
        ]
        return await asyncio.gather(*tasks, *threads)

    assert run(calls()) == ["rye"] * 54 and made == ["task"]


def test_makers_that_are_no_coroutines(cache: larder.AsyncCache) -> None:
    async def calls() -> None:
        assert await cache.get_or_set("a", lambda: 1) == 1
        assert await cache.get_or_set("b", 2) == 2
        assert await cache.get_or_set("b", 3) == 2

    run(calls())


def test_an_exception_reaches_all_that_wait_and_is_not_kept(cache: larder.AsyncCache) -> None:
    made: list[int] = []

    async def ill() -> None:
        made.append(1)
        await asyncio.sleep(0.1)
        raise LookupError("the baker is ill")

    async def calls() -> None:
        tasks = [asyncio.create_task(cache.get_or_set("key", ill)) for _ in range(5)]
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        assert [repr(it) for it in outcomes] == ["LookupError('the baker is ill')"] * 5
        assert made == [1] and not await cache.has_key("key")
        assert await cache.get_or_set("key", lambda: "rye") == "rye"

    run(calls())


def test_if_the_task_that_makes_a_value_is_cancelled_another_makes_it(cache: larder.AsyncCache) -> None:
    begun: list[str] = []

    async def make(name: str) -> str:
        begun.append(name)
        await asyncio.sleep(0.2 if name == "second" else 60)
        return name

    async def calls() -> None:
        first = asyncio.create_task(cache.get_or_set("key", lambda: make("first")))
        await asyncio.sleep(0.05)
        second = asyncio.create_task(cache.get_or_set("key", lambda: make("second")))
        await asyncio.sleep(0.05)
        first.cancel()
        assert await second == "second" and begun == ["first", "second"]
        with pytest.raises(asyncio.CancelledError):
            await first
        assert len(_of_running_loop().bridge) == 0

    run(calls())


def test_a_cancelled_task_drops_its_call(path: Path) -> None:
    sync = file_cache(path, memory="16M", flash="128M")
    for number in range(4000):
        sync.set(f"key {number}", bytes(8192))
    sync.flush()
    cache = larder.AsyncCache(sync)

    async def calls() -> None:
        bridge = _of_running_loop().bridge
        tasks = [asyncio.create_task(cache.get(f"key {number}")) for number in range(4000)]
        await asyncio.sleep(0)
        waiting = len(bridge)
        for task in tasks:
            task.cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        assert waiting > 10 and any(isinstance(it, asyncio.CancelledError) for it in outcomes)
        assert len(bridge) == 0
        assert await cache.get("key 3999") is not None

    run(calls())
    sync.close()


def test_a_value_that_is_made_of_itself_is_an_error(cache: larder.AsyncCache) -> None:
    async def again() -> Any:
        return await cache.get_or_set("key", again)

    async def calls() -> None:
        with pytest.raises(RuntimeError, match="made of itself"):
            await cache.get_or_set("key", again)

    run(calls())


def test_memoize(cache: larder.AsyncCache) -> None:
    made: list[int] = []

    @cache.memoize(ttl=60)
    async def square(number: int) -> int:
        made.append(number)
        await asyncio.sleep(0.05)
        return number * number

    async def calls() -> None:
        assert await asyncio.gather(*(square(number % 3) for number in range(30))) == [
            (number % 3) ** 2 for number in range(30)
        ]
        assert sorted(made) == [0, 1, 2]
        assert await square.forget(1) is True  # type: ignore[attr-defined]
        assert await square(1) == 1 and len(made) == 4

    run(calls())


def test_each_loop_has_its_own_bridge(cache: larder.AsyncCache) -> None:
    async def calls(number: int) -> None:
        for turn in range(200):
            await cache.set(f"{number} {turn}", turn)
            assert await cache.get(f"{number} {turn}") == turn
            assert await cache.incr("shared") > 0

    threads = [threading.Thread(target=run, args=(calls(number),)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert cache.sync.get("shared") == 800
    gc.collect()


def test_an_opening_does_not_stop_the_loop(path: Path) -> None:
    async def calls() -> None:
        cache = await larder.AsyncCache.open(path, memory="8M", flash="32M")
        async with cache:
            await cache.set("key", 1)
        assert cache.sync.closed

    run(calls())
