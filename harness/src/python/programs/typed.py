"""A program of a user: mypy checks it with its strictest rules."""

import asyncio
from datetime import timedelta

import larder


def threads() -> None:
    with larder.Cache("/var/cache/app.larder", memory="1G", flash="64G", ttl=60, codec="json") as cache:
        cache.set("bread", {"flour": "rye"}, ttl=timedelta(hours=1))
        cache.set(b"bread", 1, ttl=None)
        cache["oat"] = 2
        found = cache.get("bread")
        print(found, cache["oat"], "oat" in cache, len(cache))
        number: int = cache.incr("loaves", 2, default=None)
        view = cache.get_view("bread", None)
        if view is not None:
            print(view.nbytes, number)
        made: list[int] = cache.get_or_set("list", lambda: [1, 2])
        many: dict[str, object] = cache.get_many(["bread", "oat"])
        print(made, many, list(cache.keys()), cache.stats()["hit_ratio"])

        @cache.memoize(ttl=60, typed=True, ignore={"oven"})
        def bake(flour: str, oven: int = 1) -> str:
            return flour * oven

        loaf: str = bake("rye", oven=2)
        print(loaf, bake.cache_key("rye"), bake.forget("rye"))


async def tasks() -> None:
    cache = await larder.AsyncCache.open("/var/cache/app.larder", flash="1G")
    async with cache:
        await cache.set("bread", "rye", ttl=5)
        print(await cache.get("bread", "none"), await cache.incr("loaves"))

        async def bake() -> str:
            return "rye"

        loaf: str = await cache.get_or_set("bread", bake)

        @cache.memoize(ttl=60)
        async def square(number: int) -> int:
            return number * number

        print(loaf, await square(2), [key async for key in cache])


def processes() -> None:
    with larder.Client(unix="/run/larder.sock", codec="pickle", timeout=1.0) as cache:
        try:
            cache.set("bread", {"flour": "rye"})
            loaf: str = cache.get_or_set("loaf", lambda: "rye")
            print(loaf)
        except larder.ServerError as error:
            print(error)
        except larder.Error:
            raise


def tools() -> None:
    replay = larder.replay([1, 2, 1], [100, 200, 100], ["get", "set", "get"], flash="16M", placement="both")
    dlwa: float | None = replay.on.dlwa
    drive = larder.Ssd("64M", op=17.0)
    drive.write(0, drive.pages)
    print(dlwa, replay.to_dict()["seed"], drive.dlwa, [it.name for it in larder.lab.list()])


if __name__ == "__main__":
    threads()
    asyncio.run(tasks())
    processes()
    tools()
