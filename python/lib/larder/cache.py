"""The cache of one process, for threads."""

from __future__ import annotations

import atexit
import os
import weakref
from collections.abc import Iterator, Mapping
from datetime import timedelta
from types import EllipsisType
from typing import Any, Final, Literal, Union

from . import _larder
from ._paths import open_at
from ._sizes import Size, size_bytes
from .codecs import Codec, CodecName, named
from .memoize import Memoizing

__all__ = ["Cache", "Key", "Lifetime"]

Key = Union[str, bytes]
"""A key: `bytes` of at most 65,535, or a `str`, which is its UTF-8. ``"a"`` and ``b"a"`` are one key."""

Lifetime = Union[float, timedelta, None, EllipsisType]
"""Seconds, or a `timedelta`. ``None``: for ever. ``0`` or less: expired at once. Omitted: the cache's own `ttl`."""

_PAGE: Final = 256

_opened: weakref.WeakSet[Cache] = weakref.WeakSet()


class Cache(_larder.Store, Memoizing):
    """A cache in DRAM, or in DRAM over a file on flash.

    ::

        cache = larder.Cache("/var/cache/app.larder", memory="1G", flash="64G")
        cache.set("bread", {"flour": "rye"}, ttl=3600)
        cache.get("bread")

    It may be shared by all threads of a process. Calls give up the interpreter's lock wherever they may wait. One
    process has a file open; for several processes see :class:`larder.Client`. After a fork the child must open its own.

    **Lifetimes** (`ttl` of all calls): seconds or a :class:`~datetime.timedelta`; ``None`` is for ever; ``0`` and less
    is expired at once, so that `set` removes the key; omitted, it is the cache's own `ttl`. They are kept to the
    millisecond in DRAM, and rounded up to the second on flash.

    **Values**: what the codec takes (:mod:`larder.codecs`). A stored ``None`` is not a miss: `get_many` returns it,
    ``in`` is true, and ``cache[key]`` does not raise. Anything may be evicted at any time: a cache keeps what is asked
    for, and is no database.

    :param path: the file, created if it is missing. ``None``: everything is in DRAM. ``{pid}`` and ``{worker}`` (the
        lowest number whose file is free) give each worker its own.
    :param memory: bytes of DRAM for everything, 8 KiB to 1 TiB. With a file, its index is part of it: about 1/256 of
        `flash` or more, so 64G of flash need at least 256M.
    :param flash: bytes of the file: a multiple of 4096, at least 16M or so. Ignored without `path`.
    :param ttl: lifetime of values that are set without one. ``None``: for ever.
    :param codec: ``"pickle"``, ``"json"``, ``"bytes"``, or an object with `dumps` and `loads`.
    :param crash_safety: ``"process"``: what has reached the file survives a killed process. ``"power"``: also a loss
        of power. ``"off"``: a crash empties the file, and nothing is written to prevent it.
    :param admission: which items go to flash: ``"all"``, ``"random:0.5"``, ``"reject-first"``, ``"freq:2"``,
        ``"budget:…"``; ``docs/placement.md`` of the project describes them.
    :param on_change: what to do with a file that was made with another `flash` or `crash_safety`: ``"refuse"`` raises,
        ``"discard"`` starts empty.
    :param lock_wait: seconds to wait for a file that another process has open.
    :param start_empty: whether to discard what the file has.
    :param reserve: whether to reserve the space of the file now, so that a full disk is found at the opening.
    :raises ConfigError: for a setting that cannot work.
    :raises InUseError: if another cache has the file.
    :raises ForeignError: if the file holds something else.
    :raises DeviceError: if the file cannot be opened, or there is no space for it.
    """

    def __new__(
        cls,
        path: str | os.PathLike[str] | None = None,
        memory: Size = "1G",
        flash: Size = "64G",
        ttl: float | timedelta | None = None,
        codec: CodecName | Codec = "pickle",
        *,
        crash_safety: Literal["process", "power", "off"] = "process",
        admission: str = "all",
        on_change: Literal["refuse", "discard"] = "refuse",
        dram_policy: str = "s3-fifo",
        lock_wait: float = 5.0,
        start_empty: bool = False,
        reserve: bool = True,
    ) -> Cache:
        memory_bytes, flash_bytes = size_bytes("memory", memory), size_bytes("flash", flash)
        name, functions = named(codec)
        settings: dict[str, object] = {
            "crash_safety": crash_safety,
            "admission": admission,
            "on_change": on_change,
            "dram_policy": dram_policy,
            "start_empty": start_empty,
            "reserve": reserve,
        }

        def opens(at: str | None, wait: float) -> Cache:
            return super(Cache, cls).__new__(  # type: ignore[return-value]
                cls, at, memory_bytes, flash_bytes, ttl, name, functions,
                {**settings, "lock_wait": wait},
            )

        cache = open_at(None if path is None else os.fspath(path), lock_wait, opens)
        _opened.add(cache)
        return cache

    def __enter__(self) -> Cache:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> Any:
        raise TypeError("a Cache belongs to its process: open one in each, or use larder.Client")

    def __repr__(self) -> str:
        state = "forked" if self.forked else "closed" if self.closed else f"about {len(self)} items"
        return f"<larder.Cache, {state}>"

    def __iter__(self) -> Iterator[bytes]:
        return self.keys()

    def keys(self) -> Iterator[bytes]:
        """All keys, as `bytes`, in no order. Reads the flash from end to end.

        A key that is set or deleted meanwhile may be there or not; every other key is there once.
        """
        return (key for key, _ in self._items())

    def items(self) -> Iterator[tuple[bytes, Any]]:
        """All keys with their values; see :meth:`keys`. Counts as a use of each."""
        for key, _ in self._items():
            value = self.get(key, _MISSING)
            if value is not _MISSING:
                yield key, value

    def values(self) -> Iterator[Any]:
        """All values; see :meth:`items`."""
        return (value for _, value in self.items())

    def _items(self) -> Iterator[tuple[bytes, memoryview]]:
        cursor = 0
        while True:
            page, cursor = self._page(cursor, _PAGE)
            yield from page
            if cursor == 0:
                return

    def setdefault(self, key: Key, default: Any = None) -> Any:
        """The value of `key`; if it is missing, `default`, which is stored."""
        return self.get_or_set(key, lambda: default)

    def update(self, items: Mapping[Any, Any]) -> None:
        """Set all items of a mapping."""
        self.set_many(items)


_MISSING: Final = object()


@atexit.register
def _close_all() -> None:
    """Caches that a program leaves open are closed, so that the next start finds what was in DRAM."""
    for cache in list(_opened):
        if not cache.forked:
            cache.close()
