"""Larder: a cache in DRAM over flash.

===========================  ===========================================================================================
:class:`Cache`               the cache of one process, for threads
:class:`AsyncCache`          the same for event loops
:class:`Client`              a client of ``larder serve``, for several processes that share one cache
:mod:`larder.django`         a cache backend for Django
:mod:`larder.flask`          a cache backend for Flask-Caching
:mod:`larder.errors`         the exceptions
:func:`replay`, :func:`plan` a workload on the model of a drive: write amplification, life and cost
:mod:`larder.lab`            experiments that reproduce published results
:class:`Ssd`                 the model of a drive
===========================  ===========================================================================================
"""

from __future__ import annotations

import os as _os

from . import _larder, errors, lab
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
from .tools import Plan, Replay, Run, Ssd, plan, replay

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
    "Plan",
    "Replay",
    "Run",
    "ServerError",
    "Ssd",
    "errors",
    "lab",
    "plan",
    "replay",
]

_os.register_at_fork(after_in_child=_larder.note_fork)
