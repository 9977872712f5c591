"""Memoized functions, and the keys of their calls."""

from __future__ import annotations

import functools
import inspect
import pickle
from collections.abc import Callable, Iterable
from hashlib import blake2b
from io import BytesIO
from datetime import timedelta
from types import EllipsisType
from typing import Any, Final, ParamSpec, Protocol, TypeVar, Union, cast

__all__ = ["CallKey", "Memoized", "Memoizing"]

Ignored = Iterable[Union[int, str]]
P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)
R = TypeVar("R")

_DIGEST_BYTES: Final = 16


class CallKey:
    """The key of a call: the function's name, and a digest of its arguments.

    Calls that bind the same arguments have one key, whether they are passed by position or by name. With ``typed=False``
    numbers that are equal are the same argument (``1``, ``1.0``, ``True``). Arguments in `ignore`, named by position or
    by name, are left out: ``ignore={"self"}`` for a method.

    Arguments are encoded by content, so that a key is the same in every process: ``None``, numbers, ``str``, ``bytes``,
    and lists, tuples, sets and dicts of them. Other objects are pickled.
    """

    def __init__(
        self, function: Callable[..., Any], name: str | None, typed: bool, ignore: Ignored
    ) -> None:
        self._name = name if name is not None else f"{function.__module__}.{function.__qualname__}"
        self._typed = typed
        self._signature = inspect.signature(function)
        names = list(self._signature.parameters)
        self._ignored = {names[it] if isinstance(it, int) else it for it in ignore}
        if unknown := self._ignored.difference(names):
            raise ValueError(
                f"ignore={sorted(unknown)}: {self._name} has the arguments {', '.join(names)}"
            )

    def __call__(self, *args: Any, **kwargs: Any) -> str:
        """The key of the call with these arguments."""
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        parts = [
            (name, value) for name, value in bound.arguments.items() if name not in self._ignored
        ]
        encoded = b"".join(encode(part, self._typed) for part in parts)
        return f"{self._name}:{blake2b(encoded, digest_size=_DIGEST_BYTES).hexdigest()}"


class Memoized(Protocol[P, R_co]):
    """A function whose results are in a cache."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """The result, from the cache or made now."""

    def cache_key(self, *args: P.args, **kwargs: P.kwargs) -> str:
        """The key under which the cache has the result of this call."""

    def forget(self, *args: P.args, **kwargs: P.kwargs) -> bool:
        """Delete the result of this call. Returns whether there was one."""


class Memoizing:
    """The decorator `memoize`, for classes with `get_or_set` and `delete`."""

    def memoize(
        self,
        ttl: float | timedelta | None | EllipsisType = ...,
        *,
        typed: bool = False,
        ignore: Ignored = (),
        name: str | None = None,
    ) -> Callable[[Callable[P, R]], Memoized[P, R]]:
        """A decorator that keeps a function's results.

        Of all threads (and tasks, see :class:`larder.AsyncCache`) that miss a result, one calls the function, and the
        others wait for it. An exception reaches all of them, and is not kept. ``None`` is kept like any other result.

        :param ttl: seconds that a result is kept; omitted: the cache's own `ttl`; ``None``: for ever.
        :param typed: whether ``f(1)``, ``f(1.0)`` and ``f(True)`` have results of their own.
        :param ignore: arguments that the key leaves out, by position or name: ``{"self"}`` for a method.
        :param name: what the keys begin with; the module and name of the function, unless it is given.
        """
        if callable(ttl):
            raise TypeError("write @cache.memoize(), with parentheses")

        def decorate(function: Callable[P, R]) -> Memoized[P, R]:
            if inspect.iscoroutinefunction(function):
                raise TypeError(
                    f"{function.__qualname__} is a coroutine function: decorate it with memoize of a larder.AsyncCache"
                )
            key = CallKey(function, name, typed, ignore)
            owner: Any = self

            @functools.wraps(function)
            def memoized(*args: P.args, **kwargs: P.kwargs) -> R:
                return cast(
                    R, owner.get_or_set(key(*args, **kwargs), lambda: function(*args, **kwargs), ttl)
                )

            return cast("Memoized[P, R]", with_parts(memoized, key, lambda of: owner.delete(of)))

        return decorate


def with_parts(memoized: Any, key: CallKey, delete: Callable[[str], Any]) -> Any:
    """Gives a memoized function `cache_key` and `forget`."""
    memoized.cache_key = key
    memoized.__cache_key__ = key  # as diskcache names it
    memoized.forget = lambda *args, **kwargs: delete(key(*args, **kwargs))
    return memoized


def encode(value: Any, typed: bool) -> bytes:
    """An encoding of a value by its content: equal bytes if and only if equal content."""
    kind = type(value)
    if kind is str:
        return _framed(b"s", value.encode("utf-8", "surrogatepass"))
    if kind is bytes:
        return _framed(b"b", value)
    if value is None:
        return b"n"
    if kind in (int, bool, float):
        if kind is not int and (typed or not float(value).is_integer()):
            return _framed(b"B" if kind is bool else b"f", repr(value).encode())
        return _framed(b"i", repr(int(value)).encode())
    encode_one = functools.partial(encode, typed=typed)
    if kind in (tuple, list):
        return _framed(b"t" if kind is tuple else b"l", b"".join(map(encode_one, value)))
    if kind in (set, frozenset):
        return _framed(b"S", b"".join(sorted(map(encode_one, value))))
    if kind is dict:
        return _framed(b"d", b"".join(sorted(map(encode_one, value.items()))))
    return _framed(b"p", _pickled(value))


def _framed(kind: bytes, content: bytes) -> bytes:
    return b"%b%d:%b" % (kind, len(content), content)


def _pickled(value: Any) -> bytes:
    # Without the memo, which makes one object in two places other bytes than two equal objects.
    buffer = BytesIO()
    pickler = pickle.Pickler(buffer, protocol=5)
    pickler.fast = True
    pickler.dump(value)
    return buffer.getvalue()
