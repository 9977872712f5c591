// rate-limiter-flexible with Redis (by ioredis and by node-redis), or with memcached. See feature.js.
const { BurstyRateLimiter, RateLimiterMemcache, RateLimiterRedis, RateLimiterUnion } = require("rate-limiter-flexible");

const { KIND, PORT, between, equal, feature, refused, run, sleep, soon, versions } = require("./feature.js");

const isResp = KIND === "resp";
versions("rate-limiter-flexible", ...(isResp ? ["ioredis", "redis"] : ["memcached"]));

/** Makes limiters of each kind of client. */
async function kinds() {
  if (!isResp) {
    const Memcached = require("memcached");
    const storeClient = new Memcached(`127.0.0.1:${PORT}`);
    return [["memcached", (options) => new RateLimiterMemcache({ storeClient, ...options })]];
  }
  const Redis = require("ioredis").Redis;
  const first = new Redis(PORT, "127.0.0.1", { enableOfflineQueue: false, lazyConnect: true });
  await first.connect();
  const second = require("redis").createClient({ url: `redis://127.0.0.1:${PORT}` });
  await second.connect();
  return [
    ["ioredis", (options) => new RateLimiterRedis({ storeClient: first, ...options })],
    ["node-redis", (options) => new RateLimiterRedis({ storeClient: second, useRedisPackage: true, ...options })],
  ];
}

async function allowed(limiter, number, key = "u") {
  const found = await Promise.allSettled(Array.from({ length: number }, () => limiter.consume(key)));
  const wrong = found.find(({ reason }) => reason instanceof Error);
  if (wrong) throw wrong.reason;
  return found.filter(({ status }) => status === "fulfilled").length;
}

function of(name, limiter) {
  feature(`consume: exact, 160 at a time (${name})`, async () => {
    equal(await allowed(limiter({ points: 50, duration: 60, keyPrefix: "a" }), 160), 50);
  });

  feature(`answers, get, delete, set, penalty, reward (${name})`, async () => {
    const one = limiter({ points: 5, duration: 60, keyPrefix: "b" });
    const first = await one.consume("u", 2);
    equal([first.remainingPoints, first.consumedPoints, first.isFirstInDuration], [3, 2, true]);
    between(50000, first.msBeforeNext, 60000);
    await one.penalty("u", 2);
    equal((await one.get("u")).remainingPoints, 1);
    // Its store for memcached cannot subtract.
    if (isResp) {
      await one.reward("u", 3);
      equal((await one.get("u")).consumedPoints, 1);
    }
    await one.set("u", 5, 30);
    equal((await refused(one.consume("u"))).remainingPoints, 0);
    equal([await one.delete("u"), await one.get("u")], [true, null]);
  });

  feature(`renewal, block, blockDuration (${name})`, async () => {
    const one = limiter({ points: 1, duration: 1, keyPrefix: "c" });
    await one.consume("u");
    await refused(one.consume("u"));
    await soon(() => one.consume("u").then(() => true, () => false));
    await one.block("v", 60);
    between(50000, (await refused(one.consume("v"))).msBeforeNext, 60000);
    const blocking = limiter({ points: 1, duration: 1, blockDuration: 60, keyPrefix: "d" });
    await blocking.consume("u");
    await refused(blocking.consume("u"));
    await sleep(1200);
    await refused(blocking.consume("u"));
  });

  feature(`BurstyRateLimiter, RateLimiterUnion (${name})`, async () => {
    const slow = limiter({ points: 2, duration: 60, keyPrefix: "e" });
    const bursty = new BurstyRateLimiter(slow, limiter({ points: 3, duration: 60, keyPrefix: "f" }));
    const found = [];
    for (let i = 0; i < 7; i++) found.push(await bursty.consume("u").then(() => true, () => false));
    equal(found, [true, true, true, true, true, false, false]);
    const union = new RateLimiterUnion(slow, limiter({ points: 10, duration: 60, keyPrefix: "g" }));
    equal(Object.keys(await union.consume("w")), ["e", "g"]);
  });
}

kinds().then((made) => {
  made.forEach(([name, limiter]) => of(name, limiter));
  return run();
});
