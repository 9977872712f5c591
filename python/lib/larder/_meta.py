"""memcached's meta protocol over a socket: requests out, answers in."""

from __future__ import annotations

import base64
import os
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple, TypeVar

from .errors import InvalidInputError, ServerError

KEY_BYTES_MAX: Final = 250
_PLAIN: Final = re.compile(rb"[!-~]+")
_RECEIVE_BYTES: Final = 1 << 16

T = TypeVar("T")


class Answer(NamedTuple):
    """An answer: its two letters, its flags, and the value if it has one."""

    code: bytes
    flags: list[bytes]
    value: bytes | None

    def flag(self, name: bytes) -> bytes | None:
        """What follows the flag of this letter."""
        return next((flag[1:] for flag in self.flags if flag[:1] == name), None)


def key_words(key: str | bytes) -> tuple[bytes, bytes]:
    """A key as a word of the protocol, and the flag ``b`` if the word is base64."""
    encoded = key.encode() if isinstance(key, str) else key
    if not isinstance(encoded, bytes):
        raise TypeError(f"key={key!r}: must be str or bytes; use str(key)")
    if not 0 < len(encoded) <= KEY_BYTES_MAX:
        raise InvalidInputError(
            f"key of {len(encoded)} bytes: the memcached protocol takes 1 to {KEY_BYTES_MAX}; use a digest"
        )
    if _PLAIN.fullmatch(encoded):
        return encoded, b""
    return base64.b64encode(encoded), b" b"


class Connection:
    """One connection. After an error it is of no use."""

    def __init__(self, address: str | tuple[str, int], timeout: float) -> None:
        try:
            if isinstance(address, str):
                self._socket = socket.socket(socket.AF_UNIX)
                self._socket.settimeout(timeout)
                self._socket.connect(address)
            else:
                self._socket = socket.create_connection(address, timeout)
                self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            shown = address if isinstance(address, str) else ":".join(map(str, address))
            raise ServerError(
                f"no server at {shown} ({error}); `larder serve --memcached unix:PATH` starts one"
            ) from error
        self._received = bytearray()
        self._room = memoryview(bytearray(_RECEIVE_BYTES))

    def send(self, request: bytes) -> None:
        try:
            self._socket.sendall(request)
        except OSError as error:
            raise ServerError(f"the server went away: {error}") from error

    def line(self) -> bytes:
        """The next line, without its end."""
        while (end := self._received.find(b"\r\n")) < 0:
            self._receive()
        line = bytes(self._received[:end])
        del self._received[: end + 2]
        return line

    def answer(self) -> Answer:
        """The next answer of a meta command."""
        code, *flags = self.line().split(b" ")
        if code == b"VA":
            return Answer(code, flags[1:], self._value(int(flags[0])))
        if code in (b"ERROR", b"CLIENT_ERROR", b"SERVER_ERROR"):
            text = b" ".join(flags).decode(errors="replace")
            if code == b"CLIENT_ERROR" or "too large" in text:
                raise InvalidInputError(f"the server refused the request: {text}")
            raise ServerError(f"{code.decode()} {text}")
        return Answer(code, flags, None)

    def _value(self, length: int) -> bytes:
        """The next bytes, without the end of the line after them."""
        have, needed = len(self._received), length + 2
        if have < needed:
            # The rest is received in place.
            self._received.extend(bytes(needed - have))
            with memoryview(self._received) as room:
                while have < needed:
                    have += self._receive_into(room[have:])
        value = bytes(memoryview(self._received)[:length])
        del self._received[:needed]
        return value

    def _receive(self) -> None:
        count = self._receive_into(self._room)
        self._received += self._room[:count]

    def _receive_into(self, room: memoryview) -> int:
        try:
            count = self._socket.recv_into(room)
        except OSError as error:
            raise ServerError(f"the server went away: {error}") from error
        if count == 0:
            raise ServerError("the server closed the connection")
        return count

    def close(self) -> None:
        self._socket.close()


class Pool:
    """Connections to a server: one for each thread that makes a call, kept for the next."""

    def __init__(self, address: str | tuple[str, int], timeout: float) -> None:
        self._address = address
        self._timeout = timeout
        self._lock = threading.Lock()
        self._idle: list[Connection] = []
        self._process = os.getpid()

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """A connection, which is closed if the call fails."""
        connection = self._take()
        try:
            yield connection
        except InvalidInputError:
            # The whole answer was read.
            self._give_back(connection)
            raise
        except BaseException:
            connection.close()
            raise
        self._give_back(connection)

    def ask(self, request: bytes) -> Answer:
        """One request, and its answer."""
        with self.connection() as connection:
            connection.send(request)
            return connection.answer()

    def read(self, request: bytes, read: Callable[[Connection], T]) -> T:
        """One request, whose answer `read` reads."""
        with self.connection() as connection:
            connection.send(request)
            return read(connection)

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _take(self) -> Connection:
        if os.getpid() != self._process:
            # A child makes its own connections; those of its parent go on there.
            self._lock, self._idle, self._process = threading.Lock(), [], os.getpid()
        with self._lock:
            if self._idle:
                return self._idle.pop()
        return Connection(self._address, self._timeout)

    def _give_back(self, connection: Connection) -> None:
        with self._lock:
            self._idle.append(connection)
