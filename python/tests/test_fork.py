"""Forks: a child that uses a cache of its parent is told so at once, and never hangs."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import larder
import pytest
from conftest import file_cache

FORK = multiprocessing.get_context("fork")


def in_child(work: Callable[[], None], seconds: int = 20) -> int:
    """Runs work in a forked child. Returns its exit code, 99 after an exception; a child that hangs is killed."""
    child = os.fork()
    if child == 0:
        signal.alarm(seconds)
        try:
            work()
        except BaseException as error:
            os.write(2, f"in the child: {error!r}\n".encode())
            os._exit(99)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("on_file", [False, True])
def test_a_child_is_told_at_once(path: Path, on_file: bool) -> None:
    cache = file_cache(path) if on_file else larder.Cache(memory="8M")
    cache.set("key", 1)
    view = cache.get_view("key")

    def work() -> None:
        begin = time.monotonic()
        for call in (
            lambda: cache.get("key"),
            lambda: cache.set("key", b"x" * 10_000),
            lambda: cache.get_many(["key"]),
            lambda: cache.incr("key"),
            lambda: cache.get_or_set("other", lambda: 1),
            lambda: "key" in cache,
            lambda: list(cache),
            cache.clear,
            cache.flush,
            cache.stats,
            cache.close,
        ):
            with pytest.raises(larder.ForkedError, match="post_fork.*larder serve"):
                call()
        assert cache.forked and "forked" in repr(cache) and bytes(view) == b"1"
        assert time.monotonic() - begin < 5

    assert in_child(work) == 0
    assert cache.get("key") == 1 and not cache.forked
    cache.close()


def test_a_child_ends_although_it_drops_the_cache(path: Path) -> None:
    cache = file_cache(path)
    stop = threading.Event()

    def write() -> None:
        number = 0
        while not stop.is_set():
            cache.set(f"key {number}", bytes(10_000))
            number += 1

    writers = [threading.Thread(target=write) for _ in range(3)]
    for writer in writers:
        writer.start()
    caches = [cache]
    try:
        for _ in range(5):
            assert in_child(caches.clear) == 0
            # As multiprocessing ends its children: with Python's own end.
            process = FORK.Process(target=caches.clear)
            process.start()
            process.join(20)
            assert process.exitcode == 0
    finally:
        stop.set()
        for writer in writers:
            writer.join()
    cache.close()


def test_a_child_opens_its_own(tmp_path: Path) -> None:
    template = tmp_path / "cache-{worker}.larder"
    parent = file_cache(template)
    parent.set("key", "parent")

    def work() -> None:
        with file_cache(template) as own:
            own.set("key", "child")
            for number in range(2000):
                own.set(f"{number}", bytes(10_000))
            assert own.get("key", "child") == "child"

    assert in_child(work) == 0
    assert parent.get("key") == "parent"
    parent.close()


def _square(number: int) -> int:
    with larder.Cache(memory="8M") as cache:
        return int(cache.get_or_set(str(number), lambda: number * number))


def test_pools_of_processes(path: Path) -> None:
    cache = file_cache(path)
    with FORK.Pool(2) as pool:
        assert pool.map(_square, range(10)) == [number * number for number in range(10)]
    cache.close()


def test_a_client_goes_on_in_the_child(server: str) -> None:
    client = larder.Client(unix=server)
    client.set("forked", 1)

    def work() -> None:
        assert client.get("forked") == 1
        client.set("forked", 2)

    assert in_child(work) == 0
    assert client.get("forked") == 2
