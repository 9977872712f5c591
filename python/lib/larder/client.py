"""A client of ``larder serve``, for several processes that share one cache."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from threading import Lock, RLock
from typing import Any, Final, TypeVar, overload

from ._meta import Answer, Connection, Pool, key_words
from .cache import Key, Lifetime
from .codecs import Codec, CodecName, named
from .errors import CodecError, InvalidInputError, ServerError
from .memoize import Memoizing

__all__ = ["Client"]

T = TypeVar("T")

_BYTES, _PICKLE, _INTEGER, _LONG, _TEXT, _JSON, _OWN = 0, 1, 2, 4, 16, 32, 64
_OF_NAME: Final = {"bytes": _BYTES, "pickle": _PICKLE, "json": _JSON}
_INTEGERS: Final = range(-(1 << 63), 1 << 63)
# Longer lifetimes are points in time, in this protocol.
_RELATIVE_SECONDS_MAX: Final = 30 * 24 * 3600
_KEYS_AT_ONCE: Final = 100
_BYTES_AT_ONCE: Final = 1 << 16
_MISSING: Final = object()


class Client(Memoizing):
    """A cache that `larder serve` has: the calls of :class:`larder.Cache`, from any number of processes.

    ::

        $ larder serve --memcached unix:/run/larder.sock --flash 64G
        >>> cache = larder.Client(unix="/run/larder.sock")
        >>> cache.set("bread", {"flour": "rye"}, ttl=3600)

    It speaks memcached's meta protocol, and keeps a connection for each thread that makes a call. After a fork the
    child makes its own. Differences from :class:`larder.Cache`:

    - keys have 1 to 250 bytes, and lifetimes whole seconds, rounded up;
    - `get_or_set` and `memoize` make a value once for the threads of a process, not for all processes;
    - there is no walk over keys, no `get_view`, and `flush` does nothing: the server writes to flash by itself.

    :param unix: path of the server's socket. :param address: ``"host:port"`` instead.
    :param timeout: seconds that a call may wait for the server.
    :param ttl: and `codec` are those of :class:`larder.Cache`.
    :raises ServerError: (a `ConnectionError`) by every call that the server does not answer.
    """

    def __init__(
        self,
        unix: str | None = None,
        address: str | None = None,
        *,
        ttl: float | timedelta | None = None,
        codec: CodecName | Codec = "pickle",
        timeout: float = 5.0,
    ) -> None:
        if (unix is None) == (address is None):
            raise ValueError("give unix='/run/larder.sock' or address='127.0.0.1:11211'")
        where: str | tuple[str, int]
        if unix is not None:
            where = unix.removeprefix("unix:")
        else:
            host, _, port = str(address).rpartition(":")
            where = (host.strip("[]") or "127.0.0.1", int(port))
        self._pool = Pool(where, timeout)
        self._ttl = ttl
        self._codec, self._functions = named(codec)
        self._flag = _OF_NAME.get(self._codec, _OWN)
        self._making: dict[bytes, tuple[RLock, int]] = {}
        self._making_lock = Lock()

    def get(self, key: Key, default: Any = None) -> Any:
        """The value of `key`, or `default`."""
        word, base64 = key_words(key)
        answer = self._pool.ask(b"mg %b%b v f\r\n" % (word, base64))
        return self._read(answer) if answer.value is not None else default

    def set(self, key: Key, value: Any, ttl: Lifetime = ...) -> None:
        """Store a value."""
        self._store(key, value, ttl, b"")

    def add(self, key: Key, value: Any, ttl: Lifetime = ...) -> bool:
        """Store a value unless there is one. Returns whether it was stored."""
        return self._store(key, value, ttl, b" ME")

    def replace(self, key: Key, value: Any, ttl: Lifetime = ...) -> bool:
        """Store a value if there is one. Returns whether it was stored."""
        return self._store(key, value, ttl, b" MR")

    def delete(self, key: Key) -> bool:
        """Remove a key. Returns whether it was there."""
        word, base64 = key_words(key)
        return self._pool.ask(b"md %b%b\r\n" % (word, base64)).code == b"HD"

    def pop(self, key: Key, *default: Any) -> Any:
        """Remove a key and return its value, in one step. Without `default`, a miss raises `KeyError`."""
        word, base64 = key_words(key)
        while True:
            answer = self._pool.ask(b"mg %b%b v f c\r\n" % (word, base64))
            if answer.value is None:
                if default:
                    return default[0]
                raise KeyError(key)
            request = b"md %b%b C%b\r\n" % (word, base64, answer.flag(b"c") or b"0")
            if self._pool.ask(request).code == b"HD":
                return self._read(answer)

    def touch(self, key: Key, ttl: Lifetime = ...) -> bool:
        """Give a value a new lifetime, from now. Returns whether it is there."""
        word, base64 = key_words(key)
        return self._pool.ask(b"mg %b%b T%d\r\n" % (word, base64, self._seconds(ttl))).code == b"HD"

    def expire(self, key: Key, ttl: Lifetime) -> bool:
        """The same as `touch`."""
        return self.touch(key, ttl)

    def incr(
        self, key: Key, delta: int = 1, default: int | None = 0, ttl: Lifetime = ...
    ) -> int:
        """Add to a number, in one step. A missing one begins at `default`; ``None``: raises `KeyError`.

        The lifetime of a number that is there stays as it is, to the second.
        """
        word, base64 = key_words(key)
        while True:
            answer = self._pool.ask(b"mg %b%b v f t c\r\n" % (word, base64))
            if answer.value is None:
                if default is None:
                    raise KeyError(key)
                if self.add(key, _within(key, default + delta), ttl):
                    return default + delta
                continue
            try:
                before = int(answer.value)
            except ValueError:
                raise InvalidInputError(f"key={key!r}: its value is not an int; set it to one") from None
            number = _within(key, before + delta)
            left, version = answer.flag(b"t"), answer.flag(b"c") or b"0"
            seconds = 0 if left in (None, b"-1") else max(int(left or 0), 1)
            flags = answer.flag(b"f") or b"%d" % _INTEGER
            text = b"%d" % number
            request = b"ms %b %d%b F%b T%d C%b\r\n%b\r\n" % (
                word, len(text), base64, flags, seconds, version, text,
            )
            if self._pool.ask(request).code == b"HD":
                return number

    def decr(
        self, key: Key, delta: int = 1, default: int | None = 0, ttl: Lifetime = ...
    ) -> int:
        """Subtract from a number, in one step."""
        return self.incr(key, -delta, default, ttl)

    def has_key(self, key: Key) -> bool:
        """Whether there is a value."""
        word, base64 = key_words(key)
        return self._pool.ask(b"mg %b%b\r\n" % (word, base64)).code == b"HD"

    def get_many(self, keys: Iterable[Key]) -> dict[Any, Any]:
        """The values of those keys that have one."""
        found: dict[Any, Any] = {}
        for some in _parts(list(keys)):
            words = map(key_words, some)
            request = b"".join(b"mg %b%b v f\r\n" % (word, base64) for word, base64 in words)

            def answers(connection: Connection, count: int = len(some)) -> list[Answer]:
                return [connection.answer() for _ in range(count)]

            for key, answer in zip(some, self._pool.read(request, answers)):
                if answer.value is not None:
                    found[key] = self._read(answer)
        return found

    def set_many(self, items: Mapping[Any, Any], ttl: Lifetime = ...) -> None:
        """Store all items of a mapping, with one lifetime."""
        requests: list[bytes] = []
        length = 0
        for key, value in items.items():
            requests.append(self._set_request(key, value, ttl, b""))
            length += len(requests[-1])
            if length >= _BYTES_AT_ONCE:
                self._send_all(requests)
                requests, length = [], 0
        self._send_all(requests)

    def delete_many(self, keys: Iterable[Key]) -> int:
        """Remove keys. Returns the number of those that were there."""
        deleted = 0
        for some in _parts(list(keys)):
            words = map(key_words, some)
            answers = self._send_all([b"md %b%b\r\n" % (word, base64) for word, base64 in words])
            deleted += sum(answer.code == b"HD" for answer in answers)
        return deleted

    @overload
    def get_or_set(self, key: Key, make: Callable[[], T], ttl: Lifetime = ...) -> T: ...
    @overload
    def get_or_set(self, key: Key, make: T, ttl: Lifetime = ...) -> T: ...
    def get_or_set(self, key: Key, make: Any, ttl: Lifetime = ...) -> Any:
        """The value of `key`; if it is missing, what `make()` returns, which is stored.

        Of all threads of this process that miss the key, one makes the value at a time.
        """
        found = self.get(key, _MISSING)
        if found is not _MISSING:
            return found
        with self._making_of(key.encode() if isinstance(key, str) else key):
            found = self.get(key, _MISSING)
            if found is not _MISSING:
                return found
            value = make() if callable(make) else make
            self.set(key, value, ttl)
            return value

    def clear(self) -> None:
        """Remove everything that this client may see."""
        def read(connection: Connection) -> bytes:
            return connection.line()

        if (said := self._pool.read(b"flush_all\r\n", read)) != b"OK":
            raise ServerError(f"flush_all: {said.decode(errors='replace')}")

    def flush(self) -> dict[str, int]:
        """Does nothing: the server writes to flash by itself."""
        return {}

    def stats(self) -> dict[str, str]:
        """What the server's `stats` says."""
        def read(connection: Connection) -> dict[str, str]:
            said: dict[str, str] = {}
            while (line := connection.line()) != b"END":
                _, name, value = line.decode(errors="replace").split(" ", 2)
                said[name] = value
            return said

        return self._pool.read(b"stats\r\n", read)

    def close(self) -> None:
        """Close the connections. A later call makes new ones."""
        self._pool.close()

    def __getitem__(self, key: Key) -> Any:
        found = self.get(key, _MISSING)
        if found is _MISSING:
            raise KeyError(key)
        return found

    def __setitem__(self, key: Key, value: Any) -> None:
        self.set(key, value)

    def __delitem__(self, key: Key) -> None:
        if not self.delete(key):
            raise KeyError(key)

    def __contains__(self, key: Key) -> bool:
        return self.has_key(key)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def setdefault(self, key: Key, default: Any = None) -> Any:
        """The value of `key`; if it is missing, `default`, which is stored."""
        return self.get_or_set(key, lambda: default)

    def update(self, items: Mapping[Any, Any]) -> None:
        """Set all items of a mapping."""
        self.set_many(items)

    def _seconds(self, ttl: Lifetime) -> int:
        said = self._ttl if ttl is ... else ttl
        if said is None:
            return 0
        seconds = said.total_seconds() if isinstance(said, timedelta) else float(said)
        if math.isinf(seconds) and seconds > 0:
            return 0
        if seconds <= 0:
            return -1
        whole = math.ceil(seconds)
        return whole if whole <= _RELATIVE_SECONDS_MAX else math.ceil(time.time() + seconds)

    def _set_request(self, key: Key, value: Any, ttl: Lifetime, mode: bytes) -> bytes:
        word, base64 = key_words(key)
        data, flags = self._encode(value)
        return b"ms %b %d%b F%d T%d%b\r\n%b\r\n" % (
            word, len(data), base64, flags, self._seconds(ttl), mode, data,
        )

    def _store(self, key: Key, value: Any, ttl: Lifetime, mode: bytes) -> bool:
        return self._pool.ask(self._set_request(key, value, ttl, mode)).code == b"HD"

    def _send_all(self, requests: list[bytes]) -> list[Answer]:
        def read(connection: Connection) -> list[Answer]:
            return [connection.answer() for _ in requests]

        return self._pool.read(b"".join(requests), read) if requests else []

    def _encode(self, value: Any) -> tuple[bytes, int]:
        """The bytes and flags of a value: the rules of the extension module, see :mod:`larder.codecs`."""
        kind = type(value)
        if self._functions is None:
            if not isinstance(value, (bytes, bytearray, memoryview)):
                value = memoryview(value)
            return bytes(value), _BYTES
        if kind is int and value in _INTEGERS:
            return b"%d" % value, _INTEGER
        if self._flag != _OWN:
            if kind is bytes or isinstance(value, (bytearray, memoryview)):
                return bytes(value), _BYTES
            if kind is str:
                try:
                    return value.encode(), _TEXT
                except UnicodeEncodeError:
                    pass
        data = self._functions[0](value)
        if not isinstance(data, bytes):
            raise TypeError(f"{self._codec}: dumps gave {type(data)}, not bytes")
        return data, self._flag

    def _read(self, answer: Answer) -> Any:
        data, flags = answer.value or b"", int(answer.flag(b"f") or 0)
        if self._functions is None or flags == _BYTES:
            return data
        if flags in (_INTEGER, _LONG):
            return int(data)
        if flags == _TEXT:
            return data.decode()
        if flags == self._flag:
            return self._functions[1](data)
        raise CodecError(
            f"the value was written with flags {flags}, which codec={self._codec!r} does not read: use the codec that "
            "wrote it, or delete the value"
        )

    @contextmanager
    def _making_of(self, key: bytes) -> Iterator[None]:
        """Lets one thread at a time make the value of a key."""
        with self._making_lock:
            lock, users = self._making.get(key, (RLock(), 0))
            self._making[key] = (lock, users + 1)
        try:
            with lock:
                yield
        finally:
            with self._making_lock:
                lock, users = self._making[key]
                if users == 1:
                    del self._making[key]
                else:
                    self._making[key] = (lock, users - 1)


def _within(key: Key, number: int) -> int:
    if number not in _INTEGERS:
        raise InvalidInputError(f"key={key!r}: the sum would be beyond 64 bits with sign; set it anew")
    return number


def _parts(keys: list[Key]) -> Iterator[list[Key]]:
    for begin in range(0, len(keys), _KEYS_AT_ONCE):
        yield keys[begin : begin + _KEYS_AT_ONCE]


