"""Flask-Limiter with Redis or memcached. See feature.py."""

from flask import Flask, request
from flask_limiter import Limiter

from feature import IS_RESP, PORT, REDIS, between, end, equal, feature, in_threads, versions

versions("Flask-Limiter", "limits", "redis" if IS_RESP else "pymemcache")


def application(strategy, **named):
    app = Flask("check")
    limiter = Limiter(
        lambda: request.headers.get("X-User", "nameless"),
        app=app,
        storage_uri=REDIS if IS_RESP else f"memcached://127.0.0.1:{PORT}",
        strategy=strategy,
        headers_enabled=True,
        **named,
    )
    return app, limiter


def codes(app, path, number, user="a"):
    client = app.test_client()
    return [client.get(path, headers={"X-User": user}).status_code for _ in range(number)]


def limited(strategy):
    app, limiter = application(strategy)
    app.route("/limited")(limiter.limit("3 per hour")(lambda: "ok"))
    equal(codes(app, "/limited", 5), [200] * 3 + [429] * 2)
    equal(codes(app, "/limited", 2, user="b"), [200, 200])
    headers = app.test_client().get("/limited", headers={"X-User": "c"}).headers
    equal((headers["X-RateLimit-Limit"], headers["X-RateLimit-Remaining"]), ("3", "2"))
    between(0, int(headers["Retry-After"]), 3601)


@feature("fixed-window: 429 after the limit, by user, headers")
def _():
    limited("fixed-window")


@feature("moving-window: 429 after the limit, by user, headers", runs=IS_RESP)
def _():
    limited("moving-window")


@feature("sliding-window-counter: 429 after the limit, by user, headers")
def _():
    limited("sliding-window-counter")


@feature("exact, 8 threads")
def _():
    app, limiter = application("fixed-window")
    app.route("/limited")(limiter.limit("30 per hour")(lambda: "ok"))
    found = in_threads(8, lambda _: codes(app, "/limited", 10))
    equal(sum(codes.count(200) for codes in found), 30)


@feature("default, shared and exempt limits; several on one route")
def _():
    app, limiter = application("fixed-window", default_limits=["2 per hour"])
    shared = limiter.shared_limit("3 per hour", scope="both")
    several = limiter.limit("4 per hour; 2 per day")
    wraps = {"default": lambda view: view, "exempt": limiter.exempt, "one": shared, "two": shared, "several": several}
    for name, wrap in wraps.items():
        view = lambda: "ok"
        view.__name__ = name
        app.add_url_rule(f"/{name}", name, wrap(view))
    equal((codes(app, "/default", 3), codes(app, "/exempt", 4)), ([200, 200, 429], [200] * 4))
    equal((codes(app, "/one", 2), codes(app, "/two", 2)), ([200, 200], [200, 429]))
    equal(codes(app, "/several", 3), [200, 200, 429])


@feature("reset", runs=IS_RESP)
def _():
    app, limiter = application("fixed-window")
    app.route("/limited")(limiter.limit("1 per hour")(lambda: "ok"))
    equal(codes(app, "/limited", 2), [200, 429])
    limiter.reset()
    equal(codes(app, "/limited", 1), [200])


end()
