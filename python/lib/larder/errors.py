"""Exceptions of Larder.

All inherit from :class:`Error`. Most have a second parent, the exception that Python's own containers, files and sockets
would raise, so that code that knows nothing of Larder handles them. A miss is no error.
"""

from __future__ import annotations

__all__ = [
    "BusyError",
    "ClosedError",
    "CodecError",
    "ConfigError",
    "DeviceError",
    "Error",
    "ForeignError",
    "ForkedError",
    "InUseError",
    "InvalidInputError",
    "ServerError",
]


class Error(Exception):
    """Base of all exceptions of Larder."""


class ConfigError(Error, ValueError):
    """A setting cannot work, or does not fit the file. The message names the setting, its value and legal values."""


class InvalidInputError(Error, ValueError):
    """A key or a value is longer than any tier can hold, or a counter is no number."""


class BusyError(Error):
    """There is no room now: values in use, or values on their way to flash, take all of it."""


class DeviceError(Error, OSError):
    """The file or drive failed a request that the cache depends on."""


class InUseError(Error, OSError):
    """Another cache has the file open, in this process or another."""


class ForeignError(Error, ValueError):
    """The file holds data of another program, or of another version."""


class ForkedError(Error, RuntimeError):
    """The cache was opened before a fork, and this is the child."""


class ClosedError(Error, ValueError):
    """The cache was closed."""


class CodecError(Error, ValueError):
    """A value was written by another codec than the one that this cache has."""


class ServerError(Error, ConnectionError):
    """The server cannot be reached, or has answered with an error."""
