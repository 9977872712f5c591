"""Django's own tests of a cache backend, on larder.django: put into its package `cache`, next to `tests.py`."""

import copy

from django.core.cache import cache, caches
from django.test import TestCase, override_settings

from .tests import BaseCacheTests, caches_setting_for_tests

# As for memcached, whose servers evict by bytes: these two count entries.
EXCLUDED = {"cull", "zero_cull"}


def _settings(location):
    return caches_setting_for_tests(
        exclude=EXCLUDED,
        BACKEND="larder.django.LarderCache",
        LOCATION=location,
        OPTIONS={"memory": "8M"},
    )


@override_settings(CACHES=_settings(""))
class LarderCacheTests(BaseCacheTests, TestCase):
    def setUp(self):
        caches["prefix"]
        cache.clear()

    def tearDown(self):
        cache.clear()

    def test_coroutines_take_no_thread(self):
        import asyncio
        import threading

        async def calls():
            await cache.aset("key", {"flour": "rye"}, 60)
            found = await cache.aget("key")
            assert await cache.aadd("key", 1) is False
            assert await cache.aget_many(["key", "other"]) == {"key": found}
            assert await cache.atouch("key", 30)
            assert await cache.adelete("key")
            return found, threading.active_count()

        before = threading.active_count()
        self.assertEqual(asyncio.run(calls()), ({"flour": "rye"}, before))

    def test_threads_share_a_cache(self):
        import threading

        cache.set("key", 1)
        found = []
        thread = threading.Thread(target=lambda: found.append(copy.copy(caches["default"].get("key"))))
        thread.start()
        thread.join()
        self.assertEqual(found, [1])
