"""The cache of one process, for event loops. No call takes a thread."""

from __future__ import annotations

import asyncio
import functools
import inspect
import os
import threading
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextvars import ContextVar
from datetime import timedelta
from typing import Any, Final, TypeVar, Union, cast

from ._larder import Bridge, Pending
from ._sizes import Size
from .cache import Cache, Key, Lifetime
from .codecs import Codec, CodecName
from .memoize import CallKey, Ignored, P, with_parts

__all__ = ["AsyncCache"]

T = TypeVar("T")

_MAKE: Final = object()
_ANSWER, _ERROR, _WANTED = 0, 1, 2
_PAGE: Final = 256

_making: ContextVar[frozenset[tuple[int, bytes]]] = ContextVar("larder_making", default=frozenset())


class _Loop:
    """An event loop's bridge to the caches, and the futures of the calls that wait."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.bridge = Bridge()
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        # Windows' default loop has no add_reader; the wheel is for systems whose loops have it.
        loop.add_reader(self.bridge.fileno(), self._turn)

    def _turn(self) -> None:
        for call, kind, outcome in self.bridge.turn():
            future = self._waiting.pop(call, None)
            if future is None or future.done():
                continue
            if kind == _ANSWER:
                future.set_result(outcome)
            elif kind == _WANTED:
                future.set_result(_MAKE)
            elif isinstance(outcome, StopIteration):
                future.set_exception(RuntimeError("the maker raised StopIteration"))
            else:
                future.set_exception(outcome)

    async def wait(self, call: int) -> Any:
        """The answer of a call that waits. If the task is cancelled, the call is dropped."""
        try:
            return await self.next(call)
        except asyncio.CancelledError:
            self.forget(call)
            raise

    def next(self, call: int) -> asyncio.Future[Any]:
        """What the call tells next."""
        future = asyncio.get_running_loop().create_future()
        self._waiting[call] = future
        return future

    def forget(self, call: int) -> None:
        """Drops a call, if it was not answered."""
        self._waiting.pop(call, None)
        self.bridge.forget(call)


_loops: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Loop] = weakref.WeakKeyDictionary()
_loops_lock: Final = threading.Lock()


def _of_running_loop() -> _Loop:
    loop = asyncio.get_running_loop()
    with _loops_lock:
        bridge = _loops.get(loop)
        if bridge is None:
            bridge = _loops[loop] = _Loop(loop)
        return bridge


class AsyncCache:
    """A cache for coroutines: the calls of :class:`larder.Cache`, as coroutines.

    ::

        cache = larder.AsyncCache("/var/cache/app.larder")
        await cache.set("bread", {"flour": "rye"}, ttl=3600)
        await cache.get("bread")

    What DRAM has is answered at once, without giving up the loop's turn. A call that waits for flash takes no thread:
    an eventfd wakes the loop. A task that is cancelled drops its call. All loops of a process may use one cache.

    Opening a file blocks: seconds if a large one was not closed. `open` does it in a thread.

    :param path: as of :class:`larder.Cache`, or a `Cache` to share with threads.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | Cache | None = None,
        memory: Size = "1G",
        flash: Size = "64G",
        ttl: float | timedelta | None = None,
        codec: CodecName | Codec = "pickle",
        **settings: Any,
    ) -> None:
        if isinstance(path, Cache):
            self._cache = path
        else:
            self._cache = Cache(path, memory, flash, ttl, codec, **settings)

    @classmethod
    async def open(cls, *args: Any, **kwargs: Any) -> AsyncCache:
        """Open a cache in a thread. The arguments are those of :class:`larder.Cache`."""
        return cls(await asyncio.to_thread(Cache, *args, **kwargs))

    @property
    def sync(self) -> Cache:
        """The same cache for threads."""
        return self._cache

    async def get(self, key: Key, default: Any = None) -> Any:
        """The value of `key`, or `default`."""
        loop = _of_running_loop()
        answer = loop.bridge.get(self._cache, key, default)
        return await loop.wait(answer.call) if type(answer) is Pending else answer

    async def get_view(self, key: Key, default: Any = None) -> Any:
        """The bytes of the value of `key` as a `memoryview`, without a copy; or `default`."""
        loop = _of_running_loop()
        return await self._answer(loop, loop.bridge.get_view(self._cache, key, default))

    async def set(self, key: Key, value: Any, ttl: Lifetime = ...) -> None:
        """Store a value."""
        loop = _of_running_loop()
        answer = loop.bridge.set(self._cache, key, value, ttl)
        if answer is not None:
            await loop.wait(answer.call)

    async def add(self, key: Key, value: Any, ttl: Lifetime = ...) -> bool:
        """Store a value unless there is one. Returns whether it was stored."""
        loop = _of_running_loop()
        return cast(bool, await self._answer(loop, loop.bridge.add(self._cache, key, value, ttl)))

    async def delete(self, key: Key) -> bool:
        """Remove a key. Returns whether it was there."""
        loop = _of_running_loop()
        return cast(bool, await self._answer(loop, loop.bridge.delete(self._cache, key)))

    async def pop(self, key: Key, *default: Any) -> Any:
        """Remove a key and return its value, in one step. Without `default`, a miss raises `KeyError`."""
        loop = _of_running_loop()
        try:
            return await self._answer(loop, loop.bridge.pop(self._cache, key))
        except KeyError:
            if not default:
                raise
            return default[0]

    async def touch(self, key: Key, ttl: Lifetime = ...) -> bool:
        """Give a value a new lifetime, from now. Returns whether it is there."""
        loop = _of_running_loop()
        return cast(bool, await self._answer(loop, loop.bridge.touch(self._cache, key, ttl)))

    async def expire(self, key: Key, ttl: Lifetime) -> bool:
        """The same as `touch`."""
        return await self.touch(key, ttl)

    async def incr(
        self, key: Key, delta: int = 1, default: int | None = 0, ttl: Lifetime = ...
    ) -> int:
        """Add to a number, in one step; see :meth:`larder.Cache.incr`."""
        loop = _of_running_loop()
        answer = loop.bridge.incr(self._cache, key, delta, default, ttl)
        return cast(int, await self._answer(loop, answer))

    async def decr(
        self, key: Key, delta: int = 1, default: int | None = 0, ttl: Lifetime = ...
    ) -> int:
        """Subtract from a number, in one step."""
        return await self.incr(key, -delta, default, ttl)

    async def has_key(self, key: Key) -> bool:
        """Whether there is a value. Does not count as a use."""
        loop = _of_running_loop()
        return cast(bool, await self._answer(loop, loop.bridge.has_key(self._cache, key)))

    async def get_many(self, keys: Iterable[Key]) -> dict[Any, Any]:
        """The values of those keys that have one. Reads of flash run at the same time."""
        loop = _of_running_loop()
        answer = loop.bridge.get_many(self._cache, list(keys))
        return cast("dict[Any, Any]", await self._answer(loop, answer))

    async def set_many(self, items: Mapping[Any, Any], ttl: Lifetime = ...) -> None:
        """Store all items of a mapping, with one lifetime."""
        loop = _of_running_loop()
        await self._answer(loop, loop.bridge.set_many(self._cache, items, ttl))

    async def delete_many(self, keys: Iterable[Key]) -> int:
        """Remove keys. Returns the number of those that were there."""
        loop = _of_running_loop()
        answer = loop.bridge.delete_many(self._cache, list(keys))
        return cast(int, await self._answer(loop, answer))

    async def clear(self) -> None:
        """Remove everything."""
        loop = _of_running_loop()
        await self._answer(loop, loop.bridge.clear(self._cache))

    async def flush(self) -> dict[str, int]:
        """Write to flash what only DRAM has, and wait until it is there; see :meth:`larder.Cache.flush`."""
        loop = _of_running_loop()
        return cast("dict[str, int]", await self._answer(loop, loop.bridge.flush(self._cache)))

    async def close(self) -> None:
        """Write what flash lacks, and release the file. Later calls raise `ClosedError`."""
        loop = _of_running_loop()
        await self._answer(loop, loop.bridge.close(self._cache))

    async def get_or_set(
        self, key: Key, make: Union[Callable[[], Awaitable[T]], Callable[[], T], T], ttl: Lifetime = ...
    ) -> T:
        """The value of `key`; if it is missing, what `make()` returns, or its coroutine, which is stored.

        Of all tasks and threads that miss the key, one makes the value, and the others wait for it. If it raises, all
        of them get the exception, and nothing is stored. If its task is cancelled, another one makes the value. If the
        key is set or deleted meanwhile, that counts, and the value is returned but not stored.
        """
        loop = _of_running_loop()
        answer = loop.bridge.get_or_set(self._cache, key)
        if type(answer) is not Pending:
            return cast(T, answer)
        call, is_wanted = answer.call, answer.make
        try:
            if self._named(key) in _making.get():
                raise RuntimeError(f"key={key!r}: its value is made of itself")
            while True:
                if is_wanted:
                    await self._deliver(loop, call, key, make, ttl)
                told = await loop.next(call)
                if told is not _MAKE:
                    return cast(T, told)
                is_wanted = True
        finally:
            loop.forget(call)

    async def _deliver(
        self, loop: _Loop, call: int, key: Key, make: Any, ttl: Lifetime
    ) -> None:
        """Makes a value. Its exception comes back as the answer of the call, as to all others that wait for it."""
        token = _making.set(_making.get() | {self._named(key)})
        try:
            value = make() if callable(make) else make
            if inspect.isawaitable(value):
                value = await value
            loop.bridge.deliver(call, self._cache, value, ttl)
        except Exception as error:
            loop.bridge.fail(call, error)
        finally:
            _making.reset(token)

    def _named(self, key: Key) -> tuple[int, bytes]:
        return (id(self._cache), key.encode() if isinstance(key, str) else key)

    def memoize(
        self,
        ttl: Lifetime = ...,
        *,
        typed: bool = False,
        ignore: Ignored = (),
        name: str | None = None,
    ) -> Callable[[Callable[P, Awaitable[T]]], Callable[P, Awaitable[T]]]:
        """A decorator that keeps the results of a coroutine function; see :meth:`larder.Cache.memoize`.

        ``forget(*args)`` of the decorated function is a coroutine function.
        """
        if callable(ttl):
            raise TypeError("write @cache.memoize(), with parentheses")

        def decorate(function: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
            key = CallKey(function, name, typed, ignore)

            @functools.wraps(function)
            async def memoized(*args: P.args, **kwargs: P.kwargs) -> T:
                of = key(*args, **kwargs)
                return await self.get_or_set(of, lambda: function(*args, **kwargs), ttl)

            return cast("Callable[P, Awaitable[T]]", with_parts(memoized, key, self.delete))

        return decorate

    async def keys(self) -> AsyncIterator[bytes]:
        """All keys; see :meth:`larder.Cache.keys`. Pages of them are read in a thread."""
        cursor = 0
        while True:
            page, cursor = await asyncio.to_thread(self._cache._page, cursor, _PAGE)
            for key, _ in page:
                yield key
            if cursor == 0:
                return

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self.keys()

    def stats(self) -> dict[str, float]:
        """Counters and gauges of the cache, by name."""
        return self._cache.stats()

    async def __aenter__(self) -> AsyncCache:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @staticmethod
    async def _answer(loop: _Loop, answer: Any) -> Any:
        return await loop.wait(answer.call) if type(answer) is Pending else answer
