"""Flask-Caching's own tests of a backend, on larder.flask: put next to its tests."""

import flask
import larder.flask
import pytest
from flask_caching import Cache
from test_backend_cache import GenericCacheTests


class TestLarderCache(GenericCacheTests):
    # The suite would move a clock of its own, which the cache does not read.
    _can_use_fast_sleep = False

    @pytest.fixture
    def make_cache(self):
        return lambda **options: larder.flask.LarderCache(memory="8M", **options)

    @pytest.fixture
    def c(self, make_cache):
        return make_cache()


def test_an_application_uses_it():
    app = flask.Flask(__name__)
    app.config.update(
        CACHE_TYPE="larder.flask.LarderCache",
        CACHE_OPTIONS={"memory": "8M"},
        CACHE_DEFAULT_TIMEOUT=60,
    )
    cache = Cache(app)
    made = []

    @app.route("/")
    @cache.cached()
    def page():
        made.append(1)
        return "bread"

    @cache.memoize()
    def double(number):
        made.append(2)
        return number * 2

    client = app.test_client()
    assert [client.get("/").data for _ in range(3)] == [b"bread"] * 3 and made == [1]
    with app.app_context():
        assert [double(4) for _ in range(3)] == [8] * 3 and made == [1, 2]
        cache.delete_memoized(double)
        assert double(4) == 8 and made == [1, 2, 2]
