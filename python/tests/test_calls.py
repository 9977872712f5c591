"""The calls that every cache has: in memory, on a file, and by a server."""

from __future__ import annotations

import datetime
import threading
import time
from typing import Any

import larder
import pytest

VALUES = [
    b"",
    b"rye",
    bytes(range(256)) * 3000,
    "",
    "Brötchen",
    "lone \udcff surrogate",
    0,
    42,
    -7,
    2**63 - 1,
    -(2**63),
    2**63,
    10**40,
    True,
    None,
    1.5,
    {"flour": ["rye", 1]},
    (1, 2),
    {1, 2},
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: repr(value)[:20])
def test_a_value_comes_back_as_it_was(cache: Any, value: object) -> None:
    cache.set("key", value)
    found = cache.get("key", "missing")
    assert found == value and type(found) is type(value)


def test_buffers_come_back_as_bytes(cache: Any) -> None:
    for value in (bytearray(b"rye"), memoryview(b"xryex")[1:4]):
        cache.set("key", value)
        assert cache.get("key") == b"rye"


def test_a_stored_none_is_no_miss(cache: Any) -> None:
    assert cache.get("key") is None and "key" not in cache
    with pytest.raises(KeyError, match="key"):
        cache["key"]
    cache.set("key", None)
    assert cache.get("key", "default") is None and "key" in cache and cache["key"] is None
    assert cache.get_many(["key", "other"]) == {"key": None}


def test_text_and_its_bytes_are_one_key(cache: Any) -> None:
    cache.set("Brötchen", 1)
    assert cache.get("Brötchen".encode()) == 1
    cache.set(b"\x00 \xff", 2)
    assert cache.get(b"\x00 \xff") == 2


@pytest.mark.parametrize("key", [5, None, ("a", 1), bytearray(b"a")])
def test_other_keys_are_refused_with_a_way_out(cache: Any, key: Any) -> None:
    for call in (cache.get, cache.delete, cache.has_key, lambda key: cache.set(key, 1)):
        with pytest.raises(TypeError, match="must be str or bytes; use str"):
            call(key)


def test_lifetimes(cache: Any) -> None:
    cache.set("seconds", 1, ttl=1)
    cache.set("delta", 1, ttl=datetime.timedelta(hours=1))
    cache.set("ever", 1, ttl=None)
    cache.set("endless", 1, ttl=float("inf"))
    cache.set("usual", 1)
    cache.set("long", 1, ttl=40 * 24 * 3600)
    cache.set("gone", 1)
    cache.set("gone", 1, ttl=0)
    cache.set("negative", 1, ttl=-1)
    assert set(cache.get_many(["seconds", "delta", "ever", "usual", "gone", "negative"])) == {
        "seconds", "delta", "ever", "usual",
    }
    assert cache.touch("ever", 1) and not cache.touch("gone", 1)
    assert cache.expire("usual", 0) and "usual" not in cache
    time.sleep(2.1)
    left = cache.get_many(["seconds", "delta", "ever", "endless", "long"])
    assert set(left) == {"delta", "endless", "long"}


@pytest.mark.parametrize("ttl", ["1", b"1", [1]])
def test_a_lifetime_that_is_none_is_refused(kind: str, ttl: Any) -> None:
    if kind != "memory":
        return
    cache = larder.Cache(memory="8M")
    with pytest.raises(TypeError, match="ttl=.*must be seconds"):
        cache.set("key", 1, ttl=ttl)
    with pytest.raises(ValueError, match="nan"):
        cache.set("key", 1, ttl=float("nan"))


def test_add_and_replace(cache: Any) -> None:
    assert not cache.replace("key", 1)
    assert cache.add("key", 2) is True
    assert cache.add("key", 3) is False
    assert cache.get("key") == 2
    assert cache.replace("key", 4) and cache.get("key") == 4


def test_counters(cache: Any) -> None:
    assert cache.incr("key") == 1
    assert cache.get("key") == 1
    assert cache.incr("key", 41) == 42
    assert cache.decr("key", 50) == -8
    assert cache.incr("key", -2) == -10 and cache.get("key") == -10
    assert cache.incr("other", 2, default=40) == 42
    with pytest.raises(KeyError):
        cache.incr("third", default=None)
    cache.set("text", "rye")
    with pytest.raises(larder.InvalidInputError, match="not an int"):
        cache.incr("text")
    cache.set("largest", 2**63 - 1)
    with pytest.raises(ValueError, match="64 bits"):
        cache.incr("largest")
    assert cache.get("largest") == 2**63 - 1


def test_a_counter_keeps_its_lifetime(cache: Any) -> None:
    cache.incr("key", ttl=2)
    cache.incr("key", ttl=3600)
    time.sleep(3.1)
    assert "key" not in cache


def test_counters_lose_nothing_among_threads(cache: Any) -> None:
    def count() -> None:
        for _ in range(200):
            cache.incr("key")

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert cache.get("key") == 800


def test_many(cache: Any) -> None:
    items = {f"key {number}": number for number in range(1000)}
    cache.set_many(items)
    assert cache.get_many(items) == items
    assert cache.get_many([b"key 1", "nothing"]) == {b"key 1": 1}
    assert cache.delete_many(["key 1", "key 2", "nothing"]) == 2
    assert len(cache.get_many(items)) == 998
    cache.set_many({"brief": 1}, ttl=0)
    assert "brief" not in cache


def test_pop_takes_out(cache: Any) -> None:
    cache.set("key", b"rye", ttl=3600)
    assert cache.pop("key") == b"rye" and "key" not in cache
    assert cache.pop("key", None) is None
    with pytest.raises(KeyError, match="key"):
        cache.pop("key")


def test_the_view_of_a_dict(cache: Any) -> None:
    cache["key"] = 1
    assert cache["key"] == 1 and "key" in cache and cache
    assert cache.setdefault("key", 2) == 1 and cache.setdefault("other", 2) == 2
    cache.update({"key": 3, "third": 4})
    assert cache["key"] == 3 and cache["third"] == 4
    del cache["key"]
    with pytest.raises(KeyError):
        del cache["key"]


def test_clear(cache: Any) -> None:
    cache.set("key", 1)
    cache.clear()
    assert "key" not in cache


def test_a_value_is_made_once_among_threads(cache: Any) -> None:
    made: list[int] = []

    def make() -> str:
        made.append(1)
        time.sleep(0.2)
        return "rye"

    found: list[str] = []
    threads = [
        threading.Thread(target=lambda: found.append(cache.get_or_set("key", make, 60)))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == ["rye"] * 8 and made == [1]
    assert cache.get_or_set("number", 5) == 5 and cache.get("number") == 5


def test_what_a_maker_raises_comes_back_and_is_not_kept(cache: Any) -> None:
    def ill() -> None:
        raise LookupError("the baker is ill")

    with pytest.raises(LookupError, match="the baker is ill"):
        cache.get_or_set("key", ill)
    assert "key" not in cache
    assert cache.get_or_set("key", lambda: None) is None and "key" in cache


def test_memoize(cache: Any) -> None:
    calls: list[Any] = []

    @cache.memoize(ttl=60, ignore={"self"})  # type: ignore[untyped-decorator]
    def bake(self: object, flour: str, grams: float = 500, *extras: str, **more: int) -> str:
        """Bakes."""
        calls.append((flour, grams, extras, more))
        return f"{flour} {grams}"

    assert bake.__doc__ == "Bakes."
    assert bake(1, "rye") == "rye 500"
    assert bake(2, flour="rye", grams=500.0) == "rye 500"
    assert len(calls) == 1
    bake(1, "oat")
    bake(1, "rye", 500, "salt")
    bake(1, "rye", salt=1)
    assert len(calls) == 4
    assert bake.cache_key(1, "rye") == bake.__cache_key__(5, "rye") and bake.cache_key(1, "rye") in cache
    assert bake.forget(1, "rye") is True and bake.forget(1, "rye") is False
    bake(1, "rye")
    assert len(calls) == 5


def test_memoize_by_type(cache: Any) -> None:
    @cache.memoize(typed=True)  # type: ignore[untyped-decorator]
    def kind(value: object) -> str:
        return type(value).__name__

    assert [kind(value) for value in (1, 1.0, True, "1", b"1")] == [
        "int", "float", "bool", "str", "bytes",
    ]

    @cache.memoize(name="untyped")  # type: ignore[untyped-decorator]
    def first(value: object) -> str:
        return type(value).__name__

    assert [first(value) for value in (1, 1.0, True, "1")] == ["int", "int", "int", "str"]


def test_memoize_is_told_how_to_be_written(cache: Any) -> None:
    with pytest.raises(TypeError, match="parentheses"):
        cache.memoize(lambda: 1)
    with pytest.raises(ValueError, match="ignore=.*the arguments"):
        cache.memoize(ignore=["sugar"])(lambda flour: 1)

    async def coroutine() -> None: ...

    with pytest.raises(TypeError, match="AsyncCache"):
        cache.memoize()(coroutine)
