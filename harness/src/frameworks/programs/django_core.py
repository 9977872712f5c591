"""The cache of Django itself: its Redis backend, or PyMemcacheCache. See feature.py."""

import time

from feature import IS_RESP, PORT, REDIS, end, equal, feature, in_threads, raises, versions

import django
from django.conf import settings

BACKENDS = "django.core.cache.backends"


def of(database):
    if IS_RESP:
        return {"BACKEND": f"{BACKENDS}.redis.RedisCache", "LOCATION": f"{REDIS}/{database}"}
    return {"BACKEND": f"{BACKENDS}.memcached.PyMemcacheCache", "LOCATION": f"127.0.0.1:{PORT}"}


settings.configure(
    CACHES={"default": of(0), "other": of(1), "prefixed": {**of(0), "KEY_PREFIX": "p", "VERSION": 2}},
    SESSION_ENGINE="django.contrib.sessions.backends.cache",
    TEMPLATES=[{"BACKEND": "django.template.backends.django.DjangoTemplates"}],
    ALLOWED_HOSTS=["*"],
    SECRET_KEY="for tests",
    USE_TZ=True,
)
django.setup()

from django.contrib.sessions.backends.cache import SessionStore
from django.core.cache import cache, caches
from django.http import HttpResponse
from django.template import Context, Template
from django.test import RequestFactory
from django.views.decorators.cache import cache_page

versions("Django", "redis" if IS_RESP else "pymemcache")


@feature("set, get, add, delete, has_key")
def _():
    for value in ("text", b"\x00\xff", {"a": [1, 2.5, None]}, 7, True, None):
        cache.set("k", value)
        equal(cache.get("k", "none"), value)
    equal((cache.add("k", 1), cache.add("new", 1), cache.get("new")), (False, True, 1))
    equal((cache.has_key("k"), cache.delete("k"), cache.delete("k")), (True, True, False))
    equal(cache.get("k", "none"), "none")


@feature("a value of 500 kB")
def _():
    value = bytes(range(256)) * 2000
    cache.set("long", value)
    equal(cache.get("long") == value, True)


@feature("get_many, set_many, delete_many")
def _():
    pairs = {f"k{i}": i for i in range(300)}
    equal(cache.set_many(pairs, 60), [])
    equal(cache.get_many([*pairs, "none"]), pairs)
    cache.delete_many([f"k{i}" for i in range(299)])
    equal(cache.get_many(pairs), {"k299": 299})


@feature("timeouts and touch")
def _():
    cache.set("short", 1, 1)
    cache.set("touched", 1, 1)
    cache.set("for_ever", 1, None)
    cache.set("none", 1, 0)
    equal((cache.get("short"), cache.get("none"), cache.touch("touched", 60)), (1, None, True))
    equal(cache.touch("missing", 60), False)
    time.sleep(2.1)
    equal((cache.get("short"), cache.get("touched"), cache.get("for_ever")), (None, 1, 1))


@feature("incr, 8 threads; incr of a missing key is refused")
def _():
    cache.set("n", 0)
    in_threads(8, lambda _: [caches["default"].incr("n") for _ in range(200)])
    equal((cache.get("n"), cache.decr("n", 600)), (1600, 1000))
    raises(ValueError, cache.incr, "missing")


@feature("get_or_set, versions, prefixes")
def _():
    equal((cache.get_or_set("k", lambda: 5), cache.get_or_set("k", 6)), (5, 5))
    cache.set("v", "two", version=2)
    equal((cache.get("v"), cache.get("v", version=2)), (None, "two"))
    cache.set("v", "one")
    cache.incr_version("v", 4)
    equal((cache.get("v"), cache.get("v", version=5)), (None, "one"))
    caches["prefixed"].set("k", "p")
    equal((cache.get("k"), caches["prefixed"].get("k")), (5, "p"))


@feature("clear")
def _():
    cache.set_many({"a": 1, "b": 2})
    cache.clear()
    equal(cache.get_many(["a", "b"]), {})
    cache.set("a", 3)
    equal(cache.get("a"), 3)


@feature("clear of database 1 leaves database 0", runs=IS_RESP)
def _():
    cache.set("k", 0)
    caches["other"].set("k", 1)
    equal((cache.get("k"), caches["other"].get("k")), (0, 1))
    caches["other"].clear()
    equal((cache.get("k"), caches["other"].get("k")), (0, None))


@feature("sessions")
def _():
    session = SessionStore()
    session["user"] = 42
    session.create()
    again = SessionStore(session.session_key)
    equal(again["user"], 42)
    again["user"] = 43
    again.save()
    equal(SessionStore(session.session_key)["user"], 43)
    session.cycle_key()
    assert not session.exists(again.session_key) and session.exists(session.session_key)
    session.flush()
    equal(SessionStore(session.session_key).get("user"), None)


@feature("cache_page: a view runs once, for each variant")
def _():
    runs = []

    @cache_page(60)
    def view(request):
        runs.append(request.path)
        response = HttpResponse(f"page {len(runs)}")
        response["Vary"] = "X-Kind"
        return response

    def asked(path, kind):
        return view(RequestFactory().get(path, HTTP_X_KIND=kind)).content

    pages = [asked("/a", "x"), asked("/a", "x"), asked("/a", "y"), asked("/b", "x"), asked("/a", "y")]
    equal(pages, [b"page 1", b"page 1", b"page 2", b"page 3", b"page 2"])


@feature("template fragments")
def _():
    text = "{% load cache %}{% cache 60 part user %}{{ value }}{% endcache %}"
    shown = [
        Template(text).render(Context({"user": user, "value": value})) for user, value in (("a", 1), ("a", 2), ("b", 3))
    ]
    equal(shown, ["1", "1", "3"])


@feature("asynchronous methods")
async def _():
    await cache.aset("k", 1, 60)
    equal((await cache.aget("k"), await cache.aincr("k", 4), await cache.aadd("k", 0)), (1, 5, False))
    equal(await cache.aget_many(["k", "none"]), {"k": 5})
    await cache.adelete("k")
    equal(await cache.aget("k"), None)


end()
