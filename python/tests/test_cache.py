"""The cache of one process: files, views, codecs, errors."""

from __future__ import annotations

import array
import json
import pickle
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import larder
import pytest
from conftest import file_cache


def test_a_file_is_found_again(path: Path) -> None:
    with file_cache(path) as cache:
        cache.set_many({f"key {number}": bytes([number % 256]) * 10_000 for number in range(2000)})
        assert len(cache) > 1500
    with file_cache(path) as cache:
        cache.set("flushed", b"x" * 10_000)
        assert cache.flush()["objects"] > 0 and cache.flush()["objects"] == 0
        cache.delete("flushed")
        found = cache.get_many(f"key {number}" for number in range(2000))
        assert len(found) > 1500
        assert all(it == bytes([int(key[4:]) % 256]) * 10_000 for key, it in found.items())
        assert cache.stats()["hits"] == len(found)


def test_a_program_that_does_not_close_loses_nothing(path: Path) -> None:
    program = (
        "import larder, sys; cache = larder.Cache(sys.argv[1], memory='8M', flash='32M'); cache.set('key', 'rye')"
    )
    subprocess.run([sys.executable, "-c", program, str(path)], check=True)
    with file_cache(path) as cache:
        assert cache.get("key") == "rye"


def test_a_second_opening_names_the_server_and_the_client(path: Path) -> None:
    with file_cache(path):
        with pytest.raises(larder.InUseError, match=r"larder serve.*larder\.Client\(unix="):
            file_cache(path)
        program = "import larder, sys; larder.Cache(sys.argv[1], memory='8M', flash='32M', lock_wait=0)"
        other = subprocess.run(
            [sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=False
        )
        assert other.returncode == 1
        assert "InUseError" in other.stderr and "larder serve" in other.stderr
        assert isinstance(larder.InUseError(), OSError)
    file_cache(path).close()


def test_each_worker_has_a_file_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "cache-{worker}.larder"
    first, second = file_cache(path), file_cache(path)
    assert {it.name for it in tmp_path.iterdir()} == {"cache-0.larder", "cache-1.larder"}
    first.set("key", 1)
    first.close()
    again = file_cache(path)
    assert again.get("key") == 1 and "key" not in second
    again.close()
    second.close()


def test_settings_that_cannot_work_are_named(path: Path, tmp_path: Path) -> None:
    for settings, says in [
        ({"memory": "1X"}, "memory='1X'"),
        ({"memory": -1}, "memory=-1"),
        ({"memory": 10}, "memory = 10"),
        ({"flash": "lots"}, "flash='lots'"),
        ({"codec": "xml"}, "codec='xml'"),
        ({"crash_safety": "some"}, "crash_safety"),
        ({"admission": "none"}, "admission"),
        ({"on_change": "panic"}, "on_change"),
        ({"lock_wait": -1}, "lock_wait=-1"),
    ]:
        with pytest.raises(ValueError, match=says):
            file_cache(path, **settings)
        assert not path.exists() or not path.stat().st_size
    file_cache(path).close()
    with pytest.raises(larder.Error, match="utilization|crash_safety|tombstone"):
        file_cache(path, crash_safety="off")
    file_cache(path, crash_safety="off", on_change="discard").close()
    with pytest.raises(larder.DeviceError, match="directory"):
        file_cache(tmp_path / "no" / "directory" / "here")
    other = tmp_path / "letter"
    other.write_bytes(b"Dear reader" * 100_000)
    with pytest.raises((larder.ForeignError, larder.DeviceError), match="letter"):
        file_cache(other)
    assert other.read_bytes().startswith(b"Dear reader")


def test_a_closed_cache_says_so(path: Path) -> None:
    cache = file_cache(path)
    cache.close()
    cache.close()
    assert cache.closed and "closed" in repr(cache)
    for call in (
        lambda: cache.get("key"), lambda: cache.set("key", 1), lambda: cache["key"],
        lambda: "key" in cache, lambda: len(cache), lambda: cache.stats(), lambda: list(cache),
    ):
        with pytest.raises(larder.ClosedError, match="closed"):
            call()


def test_long_keys_and_values_are_refused() -> None:
    with larder.Cache(memory="8M") as cache:
        cache.set("k" * 65_535, 1)
        with pytest.raises(larder.InvalidInputError, match="65536 bytes"):
            cache.set("k" * 65_536, 1)
        assert cache.set("empty?", 1) is None and cache.get("") is None


def test_a_view_is_the_value_without_a_copy(path: Path) -> None:
    value = bytes(range(256)) * 1000
    with larder.Cache(memory="64M") as cache:
        cache.set("key", value)
        view = cache.get_view("key")
        assert isinstance(view, memoryview) and view.readonly and view == value
        assert len(view) == len(value) and view[1000:1004] == value[1000:1004]
        with pytest.raises(TypeError):
            view[0] = 1
        cache.set("key", b"another")
        for number in range(3000):
            cache.set(f"key {number}", bytes(100_000))
        assert view == value, "a value that a view shows does not change"
        assert cache.get_view("nothing") is None and cache.get_view("nothing", b"x") == b"x"
        cache.close()
    assert view == value


def test_codecs(path: Path) -> None:
    with larder.Cache(memory="8M", codec="json") as cache:
        for value in ({"a": [1, None, "ö"]}, [1.5], "text", b"bytes", 7, None, True):
            cache.set("key", value)
            assert cache.get("key") == value
        with pytest.raises(TypeError, match="not JSON serializable"):
            cache.set("key", object())

    class Upper:
        def dumps(self, value: Any) -> bytes:
            return json.dumps(value).upper().encode()

        def loads(self, data: bytes) -> Any:
            return json.loads(data.lower())

    with larder.Cache(memory="8M", codec=Upper()) as cache:
        cache.set("key", {"flour": "rye"})
        assert cache.get("key") == {"flour": "rye"} and cache.get_view("key") == b'{"FLOUR": "RYE"}'
        assert cache.incr("number") == 1 and cache.get("number") == 1

    class Text:
        dumps = loads = staticmethod(str)

    with larder.Cache(memory="8M", codec=Text()) as cache:  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="dumps gave.*not bytes"):
            cache.set("key", "rye")

    with larder.Cache(memory="8M", codec=pickle) as cache:
        cache.set("key", {1, 2})
        assert cache.get("key") == {1, 2}


def test_the_codec_of_bytes_takes_every_buffer() -> None:
    with larder.Cache(memory="8M", codec="bytes") as cache:
        for value in (b"rye", bytearray(b"rye"), memoryview(b"rye"), array.array("B", b"rye")):
            cache.set("key", value)
            assert cache.get("key") == b"rye"
        numbers = array.array("d", [1.5, 2.5])
        cache.set("key", numbers)
        assert cache.get("key") == numbers.tobytes()
        for other in ("rye", 5, None, [1]):
            with pytest.raises(TypeError, match="codec='bytes' takes bytes"):
                cache.set("key", other)
        assert cache.incr("number") == 1 and cache.get("number") == b"1"


def test_a_value_of_another_codec_is_not_guessed(path: Path) -> None:
    with file_cache(path, codec="pickle") as cache:
        cache.set("key", {1, 2})
        cache.set("text", "rye")
    with file_cache(path, codec="json") as cache:
        assert cache.get("text") == "rye"
        with pytest.raises(larder.CodecError, match="codec='pickle'"):
            cache.get("key")
    with file_cache(path, codec="bytes") as cache:
        assert pickle.loads(cache.get("key")) == {1, 2}


def test_walks() -> None:
    with larder.Cache(memory="32M") as cache:
        items = {f"key {number}".encode(): number for number in range(3000)}
        cache.set_many(items)
        assert set(cache) == set(cache.keys()) == set(items)
        assert dict(cache.items()) == items and sorted(cache.values()) == list(range(3000))
        assert len(cache) == 3000


def test_a_change_beats_a_value_that_is_being_made() -> None:
    with larder.Cache(memory="8M") as cache:
        making, changed = threading.Event(), threading.Event()

        def make() -> str:
            making.set()
            assert changed.wait(10)
            return "old"

        found: list[str] = []
        thread = threading.Thread(target=lambda: found.append(cache.get_or_set("key", make)))
        thread.start()
        assert making.wait(10)
        cache.delete("key")
        changed.set()
        thread.join()
        assert found == ["old"] and "key" not in cache


def test_a_value_that_is_made_of_itself_is_an_error() -> None:
    with larder.Cache(memory="8M") as cache:
        with pytest.raises(larder.Error, match="itself|wait"):
            cache.get_or_set("key", lambda: cache.get_or_set("key", lambda: 1))
        assert cache.get_or_set("a", lambda: cache.get_or_set("b", lambda: 1)) == 1


def test_a_usual_lifetime() -> None:
    with larder.Cache(memory="8M", ttl=0) as cache:
        cache.set("key", 1)
        cache["item"] = 1
        cache.set("ever", 1, ttl=None)
        assert "key" not in cache and "item" not in cache and "ever" in cache
        assert cache.touch("ever") and "ever" not in cache


def test_a_cache_is_not_pickled() -> None:
    with larder.Cache(memory="8M") as cache:
        with pytest.raises(TypeError, match="belongs to its process"):
            pickle.dumps(cache)


def test_threads_get_on_while_others_read_flash(path: Path) -> None:
    value = bytes(10_000)
    with file_cache(path, memory="16M", flash="64M") as cache:
        wrong: list[object] = []

        def work(first: int) -> None:
            for number in range(first, first + 1500):
                cache.set(f"{number}", value)
                if cache.get(f"{number}", value) != value:
                    wrong.append(number)

        threads = [threading.Thread(target=work, args=(part * 1500,)) for part in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        found = cache.get_many(str(number) for number in range(6000))
        assert not wrong and all(it == value for it in found.values())
        assert len(found) > 2000
