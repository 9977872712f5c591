// ioredis: transactions, messages, scripts, invalidation messages. See feature.js.
const Redis = require("ioredis").Redis;

const { PORT, between, equal, feature, run, sleep, soon, versions } = require("./feature.js");

versions("ioredis");
const client = (options = {}) => new Redis(PORT, "127.0.0.1", options);
const redis = client();

feature("strings, bytes, lifetimes", async () => {
  const bytes = Buffer.from([...Array(256).keys()]);
  await redis.set("b", bytes, "PX", 60000);
  equal((await redis.getBuffer("b")).equals(bytes), true);
  between(59000, await redis.pttl("b"), 60000);
  equal(await redis.set("b", "x", "NX"), null);
  await redis.mset({ m1: "1", m2: "2" });
  equal(await redis.mget("m1", "none", "m2"), ["1", null, "2"]);
  await redis.set("short", "v", "PX", 200);
  await sleep(300);
  equal(await redis.get("short"), null);
});

feature("hashes, sets, sorted sets, lists", async () => {
  await redis.hset("h", { a: 1, b: 2 });
  equal([await redis.hincrby("h", "a", 4), await redis.hgetall("h")], [5, { a: "5", b: "2" }]);
  await redis.sadd("s", "a", "b");
  equal((await redis.smembers("s")).sort(), ["a", "b"]);
  await redis.zadd("z", 1, "a", 2.5, "b");
  equal(await redis.zrange("z", 0, -1, "WITHSCORES"), ["a", "1", "b", "2.5"]);
  await redis.rpush("l", 1, 2, 3);
  equal(await redis.lrange("l", 0, -1), ["1", "2", "3"]);
});

feature("incr, 8 clients", async () => {
  const clients = Array.from({ length: 8 }, () => client());
  await Promise.all(clients.map(async (c) => { for (let i = 0; i < 200; i++) await c.incr("n"); c.disconnect(); }));
  equal(await redis.get("n"), "1600");
});

feature("pipeline, automatic pipelining", async () => {
  const answers = await redis.pipeline().incr("n").incr("n").get("n").lpush("n", 1).exec();
  equal([answers[2][1], answers[3][0] instanceof Error], ["2", true]);
  const auto = client({ enableAutoPipelining: true });
  const found = await Promise.all(Array.from({ length: 500 }, (_, i) => auto.set(`k${i}`, i).then(() => auto.get(`k${i}`))));
  equal(found, Array.from({ length: 500 }, (_, i) => String(i)));
  auto.disconnect();
});

feature("MULTI, EXEC, WATCH", async () => {
  equal((await redis.multi().set("m", "1").append("m", "2").get("m").exec())[2][1], "12");
  const watcher = client();
  await watcher.watch("m");
  await redis.set("m", "changed");
  equal(await watcher.multi().set("m", "lost").exec(), null);
  equal(await redis.get("m"), "changed");
  watcher.disconnect();
});

feature("publish and subscribe, channels and patterns", async () => {
  const subscriber = client();
  const heard = [];
  subscriber.on("message", (channel, message) => heard.push([channel, message]));
  subscriber.on("pmessage", (pattern, channel, message) => heard.push([pattern, channel, message]));
  await subscriber.subscribe("news");
  await subscriber.psubscribe("n*");
  equal(await redis.publish("news", "x"), 2);
  await soon(() => heard.length === 2);
  equal(heard, [["news", "x"], ["n*", "news", "x"]]);
  subscriber.disconnect();
});

feature("defineCommand (EVALSHA), also after SCRIPT FLUSH", async () => {
  redis.defineCommand("addTo", { numberOfKeys: 1, lua: "return redis.call('incrby', KEYS[1], ARGV[1])" });
  equal([await redis.addTo("n", 5), await redis.addTo("n", 5)], [5, 10]);
  await redis.script("FLUSH");
  equal(await redis.addTo("n", 5), 15);
});

feature("scanStream, 1000 keys", async () => {
  for (let i = 0; i < 1000; i++) redis.set(`k${i}`, i);
  const found = new Set();
  for await (const keys of redis.scanStream({ match: "k*", count: 50 })) keys.forEach((key) => found.add(key));
  equal(found.size, 1000);
});

feature("a blocking pop is woken", async () => {
  const waiter = client();
  const found = waiter.blpop("q", 5);
  await sleep(100);
  await redis.rpush("q", "x");
  equal(await found, ["q", "x"]);
  waiter.disconnect();
});

feature("SELECT: flushdb of one database leaves the other", async () => {
  const other = client({ db: 1 });
  await redis.set("k", "0");
  await other.set("k", "1");
  await other.flushdb();
  equal([await redis.get("k"), await other.get("k")], ["0", null]);
  other.disconnect();
});

feature("CLIENT TRACKING with REDIRECT (RESP2)", async () => {
  const reader = client({ protocol: 2 });
  const listener = client({ protocol: 2 });
  const heard = [];
  const id = await listener.client("ID");
  listener.on("message", (_, keys) => heard.push(String(keys)));
  await listener.subscribe("__redis__:invalidate");
  await reader.client("TRACKING", "ON", "REDIRECT", id);
  await redis.set("k", "old");
  await reader.get("k");
  await redis.set("k", "new");
  await soon(() => heard.length === 1);
  equal(heard, ["k"]);
  reader.disconnect();
  listener.disconnect();
});

feature("a connection that the server has closed is opened again", async () => {
  const other = client();
  const id = await other.client("ID");
  await redis.client("KILL", "ID", id);
  equal(await other.set("k", "v"), "OK");
  other.disconnect();
});

run();
