"""Codecs: from objects to bytes, and back.

=============  =========================================================================================================
codec          what it stores
=============  =========================================================================================================
``"pickle"``   every object that :mod:`pickle` takes. The default. Reading runs code of the file's owner: do not open
               files, or use servers, that others can write
``"json"``     what :mod:`json` takes; tuples come back as lists
``"bytes"``    ``bytes`` and contiguous buffers; everything comes back as ``bytes``
an object      with ``dumps(object) -> bytes`` and ``loads(bytes) -> object``, such as a module
=============  =========================================================================================================

With ``"pickle"`` and ``"json"``, four kinds of values need no codec: ``bytes`` (and ``bytearray`` and ``memoryview``,
which come back as ``bytes``), ``str`` (UTF-8), and ``int`` of at most 64 bits (decimal text, so that `incr` is one step
of the cache). With a codec of your own only ``int`` needs none. Each item remembers in its flags what it is; the flags
below 32 are those of pymemcache and python-memcached, so their clients of the same server read the same values.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from typing import Any, Final, Literal, Protocol, Union

from .errors import ConfigError

__all__ = ["Codec", "CodecName", "Functions", "named"]

CodecName = Literal["pickle", "json", "bytes"]
Functions = Union[tuple[Callable[[Any], bytes], Callable[[bytes], Any]], None]

PICKLE_PROTOCOL: Final = 5


class Codec(Protocol):
    """A codec of a program's own."""

    def dumps(self, value: Any, /) -> bytes:
        """The bytes of a value."""

    def loads(self, data: bytes, /) -> Any:
        """The value of bytes that `dumps` returned."""


def _pickle(value: Any) -> bytes:
    return pickle.dumps(value, PICKLE_PROTOCOL)


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")


def _from_json(data: bytes) -> Any:
    return json.loads(data.decode("utf-8", "surrogatepass"))


def named(codec: CodecName | Codec) -> tuple[str, Functions]:
    """The name and the two functions of a codec.

    :raises ConfigError: for an unknown name, or an object without ``dumps`` and ``loads``.
    """
    if codec == "bytes":
        return "bytes", None
    if codec == "pickle":
        return "pickle", (_pickle, pickle.loads)
    if codec == "json":
        return "json", (_json, _from_json)
    if not isinstance(codec, str) and hasattr(codec, "dumps") and hasattr(codec, "loads"):
        return f"own codec {codec!r}", (codec.dumps, codec.loads)
    raise ConfigError(
        f"codec={codec!r}: must be 'pickle', 'json', 'bytes', or an object with dumps(object) -> bytes and "
        "loads(bytes) -> object"
    )
