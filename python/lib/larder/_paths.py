"""Path templates, for workers that each have a file of their own."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final, TypeVar

from .errors import ConfigError, InUseError

WORKERS_MAX: Final = 1024

T = TypeVar("T")


def open_at(path: str | None, lock_wait: float, opens: Callable[[str | None, float], T]) -> T:
    """Opens a cache at a path, which may contain ``{pid}`` or ``{worker}``.

    ``{worker}`` becomes the lowest number whose file no other process has open, so that workers that are started anew
    find the files of those before them. Such a file is not waited for.
    """
    if path is None:
        return opens(None, lock_wait)
    path = path.replace("{pid}", str(os.getpid()))
    if "{worker}" not in path:
        return opens(path, lock_wait)
    for worker in range(WORKERS_MAX):
        try:
            return opens(path.replace("{worker}", str(worker)), 0.0)
        except InUseError:
            continue
    raise ConfigError(f"path={path!r}: the files of workers 0 to {WORKERS_MAX - 1} are all in use")
