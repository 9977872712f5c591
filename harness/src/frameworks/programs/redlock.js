// redlock with one server. See feature.js.
const Redis = require("ioredis").Redis || require("ioredis");
const Redlock = require("redlock").default || require("redlock");

const { PORT, between, equal, feature, refused, run, sleep, versions } = require("./feature.js");

versions("redlock", "ioredis");
const client = () => new Redis(PORT, "127.0.0.1");
const redis = client();
const of = (options) => new Redlock([client()], { retryCount: 0, ...options });
const acquire = (lock, keys, ms) => (lock.acquire ? lock.acquire([keys].flat(), ms) : lock.lock(keys, ms));
const release = (held) => (held.release ? held.release() : held.unlock());

feature("acquire, release, owner, expiry", async () => {
  const [one, other] = [of(), of()];
  const held = await acquire(one, "l", 10000);
  between(9000, await redis.pttl("l"), 10000);
  await refused(acquire(other, "l", 10000));
  await release(held);
  await release(await acquire(other, "l", 10000));
  equal(await redis.exists("l"), 0);
  const short = await acquire(one, "l", 200);
  await sleep(300);
  await acquire(other, "l", 10000);
  await refused(release(short));
});

feature("extend", async () => {
  const held = await acquire(of(), "l", 1000);
  const longer = await held.extend(30000);
  between(29000, await redis.pttl("l"), 30000);
  await release(longer);
  equal(await redis.exists("l"), 0);
});

feature("several keys at once", async () => {
  const one = of();
  const held = await acquire(one, ["a", "b"], 10000);
  await refused(acquire(one, ["b", "c"], 10000));
  equal([await redis.exists("a"), await redis.exists("b")], [1, 1]);
  await release(held);
  equal(await redis.exists("a", "b", "c"), 0);
});

feature("8 clients exclude each other", async () => {
  await Promise.all(Array.from({ length: 8 }, async () => {
    const mine = of({ retryCount: -1, retryDelay: 5, retryJitter: 5 });
    for (let i = 0; i < 5; i++) {
      const held = await acquire(mine, "l", 10000);
      const now = Number(await redis.get("n"));
      await sleep(1);
      await redis.set("n", now + 1);
      await release(held);
    }
  }));
  equal(await redis.get("n"), "40");
});

run();
