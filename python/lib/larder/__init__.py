"""Larder: a cache in DRAM over flash.

===========================  ===========================================================================================
:class:`Cache`               the cache of one process, for threads
:class:`AsyncCache`          the same for event loops
:class:`Client`              a client of ``larder serve``, for several processes that share one cache
:mod:`larder.django`         a cache backend for Django
:mod:`larder.flask`          a cache backend for Flask-Caching
:mod:`larder.errors`         the exceptions
===========================  ===========================================================================================
"""

from __future__ import annotations

import os as _os

from . import _larder, errors
from .aio import AsyncCache
from .cache import Cache, Key, Lifetime
from .client import Client
from .codecs import Codec
from .errors import (
    BusyError,
    ClosedError,
    CodecError,
    ConfigError,
    DeviceError,
    Error,
    ForeignError,
    ForkedError,
    InUseError,
    InvalidInputError,
    ServerError,
)

__all__ = [
    "AsyncCache",
    "BusyError",
    "Cache",
    "Client",
    "ClosedError",
    "Codec",
    "CodecError",
    "ConfigError",
    "DeviceError",
    "Error",
    "ForeignError",
    "ForkedError",
    "InUseError",
    "InvalidInputError",
    "Key",
    "Lifetime",
    "ServerError",
    "errors",
]

_os.register_at_fork(after_in_child=_larder.note_fork)
