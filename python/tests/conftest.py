"""Caches for the tests: each test of the calls that all caches have runs on every kind of cache."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import larder
import pytest

FLASH = 32 << 20
MEMORY = 8 << 20


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cache.larder"


def file_cache(path: Path, **settings: Any) -> larder.Cache:
    return larder.Cache(path, **{"memory": MEMORY, "flash": FLASH, "lock_wait": 0.0, **settings})


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The socket of a `larder serve`, whose program LARDER_PROGRAM names."""
    program = os.environ.get("LARDER_PROGRAM") or shutil.which("larder")
    if program is None:
        pytest.skip("no program `larder`: set LARDER_PROGRAM")
    directory = tmp_path_factory.mktemp("serve")
    socket = directory / "larder.sock"
    words = ["serve", "--memcached", f"unix:{socket}", "--resp", "none", "--admin", "none"]
    words += ["--memory", "64M", "--flash", "0", "--drain", "0"]
    process = subprocess.Popen(
        [program, *words], cwd=directory, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    try:
        for _ in range(300):
            if socket.exists():
                break
            if process.poll() is not None:
                assert process.stderr is not None
                pytest.fail(f"larder serve: {process.stderr.read().decode()}")
            time.sleep(0.1)
        yield str(socket)
    finally:
        process.terminate()
        process.wait(30)


@pytest.fixture(params=["memory", "file", "client"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def cache(kind: str, request: pytest.FixtureRequest) -> Iterator[Any]:
    """A cache of each kind, empty."""
    cache: Any
    if kind == "client":
        cache = larder.Client(unix=request.getfixturevalue("server"))
        cache.clear()
    elif kind == "file":
        cache = file_cache(request.getfixturevalue("path"))
    else:
        cache = larder.Cache(memory=MEMORY)
    with cache:
        yield cache
