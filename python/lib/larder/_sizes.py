"""Sizes as people write them."""

from __future__ import annotations

import re
from typing import Final, Union

from .errors import ConfigError

Size = Union[int, str]
"""Bytes: a number, or text such as ``"64M"``."""

_UNITS: Final = "KMGTPE"
_TEXT: Final = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?)\s*(?:([KMGTPE])(I?B)?|B)?\s*", re.IGNORECASE)


def size_bytes(name: str, size: Size) -> int:
    """The bytes of a size.

    ``K``, ``M``, ``G`` and ``T`` are powers of 1024, as are ``KiB`` to ``TiB``; ``KB`` to ``TB`` are powers of 1000, as
    drives are sold. `name` is the argument that an error names.

    :raises ConfigError: if it is no size, or negative.
    """
    if isinstance(size, int) and not isinstance(size, bool):
        if size >= 0:
            return size
    elif isinstance(size, str) and (found := _TEXT.fullmatch(size)):
        number, unit, kind = found.groups()
        base = 1000 if (kind or "").upper() == "B" else 1024
        power = _UNITS.index(unit.upper()) + 1 if unit else 0
        return int(float(number) * base**power)
    raise ConfigError(
        f"{name}={size!r}: must be a number of bytes, or text such as '64M' (K, M, G, T are powers of 1024) or '1.88TB' "
        "(KB, MB, GB, TB are powers of 1000)"
    )
