"""A cache backend for Django.

::

    CACHES = {
        "default": {
            "BACKEND": "larder.django.LarderCache",
            "LOCATION": "/var/cache/app-{worker}.larder",   # "": DRAM; "unix:/run/larder.sock": `larder serve`
            "TIMEOUT": 300,
            "OPTIONS": {"memory": "1G", "flash": "64G"},    # those of larder.Cache, or of larder.Client
        }
    }

Each worker process has a cache of its own (``{worker}`` is the lowest number whose file is free), or all share one by
``larder serve``. A cache is opened by the first call of a process, so a server may fork after it has loaded the project.

Timeouts are Django's: ``None`` is for ever, ``0`` expires at once. ``MAX_ENTRIES`` and ``CULL_FREQUENCY`` do nothing:
`memory` and `flash` are the limits. The coroutines (``aget``, …) of a cache in this process take no thread.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Mapping
from typing import Any, Final

from django.core.cache.backends.base import (  # type: ignore[import-untyped, unused-ignore]
    DEFAULT_TIMEOUT,
    BaseCache,
)

from .aio import AsyncCache
from .cache import Cache
from .client import Client
from .errors import InvalidInputError

__all__ = ["LarderCache"]

_OF_DJANGO = ("MAX_ENTRIES", "CULL_FREQUENCY")


class LarderCache(BaseCache):  # type: ignore[misc, unused-ignore]
    """See the module."""

    def __init__(self, location: str, params: dict[str, Any]) -> None:
        super().__init__(params)
        options = dict(params.get("OPTIONS") or {})
        self._options = {name: it for name, it in options.items() if name not in _OF_DJANGO}
        self._location = location
        self._opened: Cache | Client | None = None
        self._async: AsyncCache | None = None

    @property
    def _cache(self) -> Cache | Client:
        """The cache of this process."""
        cache = self._opened
        if cache is None or (isinstance(cache, Cache) and (cache.forked or cache.closed)):
            cache = self._opened = self._open()
            self._async = AsyncCache(cache) if isinstance(cache, Cache) else None
        return cache

    def _open(self) -> Cache | Client:
        location = self._location
        if location.startswith("unix:"):
            return Client(unix=location, **self._options)
        if location.startswith("tcp:"):
            return Client(address=location.removeprefix("tcp:"), **self._options)
        return _of_path(location, self._options)

    def _timeout(self, timeout: Any) -> float | None:
        return self.default_timeout if timeout is DEFAULT_TIMEOUT else timeout  # type: ignore[no-any-return]

    def _key(self, key: Any, version: int | None) -> str:
        return self.make_and_validate_key(key, version=version)  # type: ignore[no-any-return]

    def get(self, key: Any, default: Any = None, version: int | None = None) -> Any:
        return self._cache.get(self._key(key, version), default)

    def set(
        self, key: Any, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None
    ) -> None:
        self._cache.set(self._key(key, version), value, self._timeout(timeout))

    def add(
        self, key: Any, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None
    ) -> bool:
        return self._cache.add(self._key(key, version), value, self._timeout(timeout))

    def touch(self, key: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None) -> bool:
        return self._cache.touch(self._key(key, version), self._timeout(timeout))

    def delete(self, key: Any, version: int | None = None) -> bool:
        return self._cache.delete(self._key(key, version))

    def has_key(self, key: Any, version: int | None = None) -> bool:
        return self._cache.has_key(self._key(key, version))

    def incr(self, key: Any, delta: int = 1, version: int | None = None) -> int:
        try:
            return self._cache.incr(self._key(key, version), delta, None)
        except KeyError:
            raise ValueError(f"Key '{key}' not found") from None
        except InvalidInputError as error:
            raise TypeError(str(error)) from None

    def get_many(self, keys: Iterable[Any], version: int | None = None) -> dict[Any, Any]:
        names = {self._key(key, version): key for key in keys}
        return {names[name]: it for name, it in self._cache.get_many(names).items()}

    def set_many(
        self, data: Mapping[Any, Any], timeout: Any = DEFAULT_TIMEOUT, version: int | None = None
    ) -> list[Any]:
        items = {self._key(key, version): it for key, it in data.items()}
        self._cache.set_many(items, self._timeout(timeout))
        return []

    def delete_many(self, keys: Iterable[Any], version: int | None = None) -> None:
        self._cache.delete_many([self._key(key, version) for key in keys])

    def clear(self) -> None:
        self._cache.clear()

    # Django calls `close` after each request, and the cache is for all of them: it is closed when the process ends.

    async def aget(self, key: Any, default: Any = None, version: int | None = None) -> Any:
        cache = self._coroutines()
        if cache is None:
            return await super().aget(key, default, version)
        return await cache.get(self._key(key, version), default)

    async def aset(
        self, key: Any, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None
    ) -> None:
        cache = self._coroutines()
        if cache is None:
            await super().aset(key, value, timeout, version)
        else:
            await cache.set(self._key(key, version), value, self._timeout(timeout))

    async def aadd(
        self, key: Any, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None
    ) -> Any:
        cache = self._coroutines()
        if cache is None:
            return await super().aadd(key, value, timeout, version)
        return await cache.add(self._key(key, version), value, self._timeout(timeout))

    async def atouch(
        self, key: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None
    ) -> Any:
        cache = self._coroutines()
        if cache is None:
            return await super().atouch(key, timeout, version)
        return await cache.touch(self._key(key, version), self._timeout(timeout))

    async def adelete(self, key: Any, version: int | None = None) -> Any:
        cache = self._coroutines()
        if cache is None:
            return await super().adelete(key, version)
        return await cache.delete(self._key(key, version))

    async def aget_many(self, keys: Iterable[Any], version: int | None = None) -> Any:
        cache = self._coroutines()
        if cache is None:
            return await super().aget_many(keys, version)
        names = {self._key(key, version): key for key in keys}
        return {names[name]: it for name, it in (await cache.get_many(names)).items()}

    def _coroutines(self) -> AsyncCache | None:
        """The cache for coroutines; ``None`` if it is a server's, whose calls Django makes in a thread."""
        return self._async if isinstance(self._cache, Cache) else None


_shared: Final[dict[tuple[str, str], Cache]] = {}
_opening = threading.Lock()


def _after_fork() -> None:
    """In a child, another thread of the parent may have held the lock."""
    global _opening
    _opening = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


def _of_path(path: str, options: dict[str, Any]) -> Cache:
    """The cache at a path. Django makes a backend for each thread; they share one cache."""
    of: tuple[str, str] = (path, repr(sorted(options.items())))
    cache = _shared.get(of)
    if cache is None or cache.forked or cache.closed:
        with _opening:
            cache = _shared.get(of)
            if cache is None or cache.forked or cache.closed:
                cache = _shared[of] = Cache(path or None, **options)
    return cache
