"""Speed of the package next to diskcache, cachetools, lmdb and redis-py, in one run.

Values of 100 B to 1 MB, 64 of each; 1 and 16 threads. The contestants take turns, and the median of the rounds is
printed: in microseconds for a call of one thread, and in thousands of calls a second for 16 threads together. Larder's
file has 24 MiB of memory, so the values of 1 MB come from flash; diskcache and lmdb read files from the page cache.
cachetools returns references.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

SIZES = {"100 B": 100, "1 kB": 1000, "10 kB": 10_000, "100 kB": 100_000, "1 MB": 1_000_000}
KEYS = 64
ROUNDS = 5
SECONDS = 0.15
THREADS = 16


class Contestant:
    """A cache: how it reads and writes, and how it ends."""

    def __init__(self, name: str, get: Callable[[str], Any], set_: Callable[[str, bytes], Any],
                 close: Callable[[], Any] = lambda: None) -> None:
        self.name, self.get, self.set, self.close = name, get, set_, close


def larder_memory(_: Path) -> Contestant:
    import larder

    cache = larder.Cache(memory="512M")
    return Contestant("larder, DRAM", cache.get, cache.set, cache.close)


def larder_file(directory: Path) -> Contestant:
    import larder

    cache = larder.Cache(directory / "cache.larder", memory="24M", flash="1G")
    return Contestant("larder, file", cache.get, cache.set, cache.close)


def larder_client(directory: Path) -> Contestant:
    import larder

    program = os.environ["LARDER_PROGRAM"]
    socket = directory / "larder.sock"
    words = ["serve", "--memcached", f"unix:{socket}", "--resp", "none", "--admin", "none", "--flash", "0"]
    server = subprocess.Popen([program, *words, "--memory", "512M"], cwd=directory,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _wait(socket)
    client = larder.Client(unix=str(socket))
    return Contestant("larder.Client", client.get, client.set, _ending(server))


def with_cachetools(_: Path) -> Contestant:
    import cachetools

    cache: Any = cachetools.LRUCache(10_000)
    lock = threading.Lock()

    def get(key: str) -> Any:
        with lock:
            return cache.get(key)

    def set_(key: str, value: bytes) -> None:
        with lock:
            cache[key] = value

    return Contestant("cachetools, lock", get, set_)


def with_diskcache(directory: Path) -> Contestant:
    import diskcache

    cache = diskcache.Cache(directory / "diskcache")
    return Contestant("diskcache", cache.get, cache.set, cache.close)


def with_lmdb(directory: Path) -> Contestant:
    import lmdb

    environment = lmdb.open(str(directory / "lmdb"), map_size=1 << 30, sync=False, metasync=False)

    def get(key: str) -> Any:
        with environment.begin() as transaction:
            return transaction.get(key.encode())

    def set_(key: str, value: bytes) -> None:
        with environment.begin(write=True) as transaction:
            transaction.put(key.encode(), value)

    return Contestant("lmdb, no sync", get, set_, environment.close)


def with_redis(directory: Path) -> Contestant:
    import redis

    program = shutil.which("valkey-server") or shutil.which("redis-server")
    if program is None:
        raise RuntimeError("neither valkey-server nor redis-server is there")
    socket = directory / "redis.sock"
    server = subprocess.Popen([program, "--port", "0", "--unixsocket", str(socket), "--save", ""],
                              cwd=directory, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _wait(socket)
    client = redis.Redis(unix_socket_path=str(socket))
    return Contestant("redis-py, Unix socket", client.get, client.set, _ending(server))


def _wait(socket: Path) -> None:
    for _ in range(200):
        if socket.exists():
            return
        time.sleep(0.05)
    raise RuntimeError(f"{socket}: no server")


def _ending(server: subprocess.Popen[bytes]) -> Callable[[], None]:
    def end() -> None:
        server.terminate()
        server.wait(30)

    return end


def microseconds(call: Callable[[int], Any]) -> float:
    """The mean time of a call, over a share of a second."""
    count, begin = 0, time.perf_counter()
    while (spent := time.perf_counter() - begin) < SECONDS:
        for number in range(16):
            call(count + number)
        count += 16
    return spent / count * 1e6


def thousands(call: Callable[[int], Any]) -> float:
    """Thousands of calls a second, of all threads together."""
    counts = [0] * THREADS
    end = threading.Event()

    def work(thread: int) -> None:
        count = 0
        while not end.is_set():
            for number in range(16):
                call(count + number)
            count += 16
        counts[thread] = count

    threads = [threading.Thread(target=work, args=(thread,)) for thread in range(THREADS)]
    begin = time.perf_counter()
    for thread in threads:
        thread.start()
    time.sleep(SECONDS)
    end.set()
    for thread in threads:
        thread.join()
    return sum(counts) / (time.perf_counter() - begin) / 1e3


def main() -> None:
    directory = Path(sys.argv[1]) / "bench"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    contestants: list[Contestant] = []
    for make in (larder_memory, larder_file, larder_client, with_cachetools, with_diskcache, with_lmdb, with_redis):
        try:
            contestants.append(make(directory))
        except Exception as why:
            print(f"skipped: {make.__name__}: {why}", file=sys.stderr)
    print(f"| median of {ROUNDS} | " + " | ".join(it.name for it in contestants) + " |")
    print("|---" * (1 + len(contestants)) + "|")
    for kind, threads in [("get", 1), ("set", 1), ("get", THREADS)]:
        for size, length in SIZES.items():
            keys = [f"key {length} {number}" for number in range(KEYS)]
            values = [os.urandom(length) for _ in range(4)]
            rounds: dict[str, list[float]] = {it.name: [] for it in contestants}
            for contestant in contestants:
                for number, key in enumerate(keys):
                    contestant.set(key, values[number % 4])
            for _ in range(ROUNDS):
                for it in contestants:
                    def get(number: int, it: Contestant = it) -> None:
                        it.get(keys[number % KEYS])

                    def set_(number: int, it: Contestant = it) -> None:
                        it.set(keys[number % KEYS], values[number % 4])

                    call = get if kind == "get" else set_
                    rounds[it.name].append(microseconds(call) if threads == 1 else thousands(call))
            unit = "µs" if threads == 1 else f"1,000/s, {threads} threads"
            medians = [f"{statistics.median(measured):.3g}" for measured in rounds.values()]
            print(f"| {kind} {size}, {unit} | " + " | ".join(medians) + " |", flush=True)
    for it in contestants:
        it.close()


if __name__ == "__main__":
    main()
