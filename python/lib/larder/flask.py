"""A cache backend for Flask-Caching.

::

    app.config.update(
        CACHE_TYPE="larder.flask.LarderCache",
        CACHE_DEFAULT_TIMEOUT=300,
        CACHE_ARGS=["/var/cache/app-{worker}.larder"],            # nothing: DRAM; "unix:/run/larder.sock": `larder serve`
        CACHE_OPTIONS={"memory": "1G", "flash": "64G"},           # those of larder.Cache, or of larder.Client
    )

Each worker process has a cache of its own (``{worker}`` is the lowest number whose file is free), or all share one by
``larder serve``. The cache is opened by the first call of a process.

Timeouts are Flask-Caching's: ``None`` is the default timeout, ``0`` is for ever.
"""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any, Union

from flask_caching.backends.base import BaseCache

from .cache import Cache
from .client import Client

__all__ = ["LarderCache"]

Timeout = Union[int, timedelta, None]


class LarderCache(BaseCache):
    """See the module."""

    def __init__(
        self,
        location: str = "",
        default_timeout: int = 300,
        key_prefix: str = "",
        ignore_delete_many_errors: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(default_timeout)
        # An attribute, which every version of Flask-Caching has, and not all take as an argument.
        self.ignore_delete_many_errors = ignore_delete_many_errors
        self._location = location
        self._prefix = key_prefix
        self._options = options
        self._opened: Cache | Client | None = None
        self._opening = threading.Lock()

    @classmethod
    def factory(cls, app: Any, config: Any, args: list[Any], kwargs: dict[str, Any]) -> LarderCache:
        return cls(*args, **{"key_prefix": config.get("CACHE_KEY_PREFIX", ""), **kwargs})

    @property
    def _cache(self) -> Cache | Client:
        """The cache of this process."""
        cache = self._opened
        if isinstance(cache, Cache) and cache.forked:
            # In a child, another thread of the parent may have held the lock.
            cache, self._opened, self._opening = None, None, threading.Lock()
        if cache is None:
            with self._opening:
                cache = self._opened = self._opened or self._open()
        return cache

    def _open(self) -> Cache | Client:
        location = self._location
        if location.startswith("unix:"):
            return Client(unix=location, **self._options)
        if location.startswith("tcp:"):
            return Client(address=location.removeprefix("tcp:"), **self._options)
        return Cache(location or None, **self._options)

    def _ttl(self, timeout: Timeout) -> float | timedelta | None:
        said = self.default_timeout if timeout is None else timeout
        return said if said else None

    def _key(self, key: str) -> str:
        return f"{self._prefix}{key}"

    def get(self, key: str) -> Any:
        return self._cache.get(self._key(key))

    def set(self, key: str, value: Any, timeout: Timeout = None) -> bool:
        self._cache.set(self._key(key), value, self._ttl(timeout))
        return True

    def add(self, key: str, value: Any, timeout: Timeout = None) -> bool:
        return self._cache.add(self._key(key), value, self._ttl(timeout))

    def delete(self, key: str) -> bool:
        return self._cache.delete(self._key(key))

    def has(self, key: str) -> bool:
        return self._cache.has_key(self._key(key))

    def get_many(self, *keys: str) -> list[Any]:
        found = self.get_dict(*keys)
        return [found[key] for key in keys]

    def get_dict(self, *keys: str) -> dict[str, Any]:
        found = self._cache.get_many([self._key(key) for key in keys])
        return {key: found.get(self._key(key)) for key in keys}

    def set_many(self, mapping: dict[str, Any], timeout: Timeout = None) -> list[str]:
        items = {self._key(key): value for key, value in mapping.items()}
        self._cache.set_many(items, self._ttl(timeout))
        return list(mapping)

    def inc(self, key: str, delta: int = 1) -> int | None:
        return self._cache.incr(self._key(key), delta, 0, self._ttl(None))

    def dec(self, key: str, delta: int = 1) -> int | None:
        return self._cache.decr(self._key(key), delta, 0, self._ttl(None))

    def clear(self) -> bool:
        self._cache.clear()
        return True
