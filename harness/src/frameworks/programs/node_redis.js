// node-redis: transactions, scripts, pools, its client-side cache. See feature.js.
const { createClient, createClientPool, defineScript } = require("redis");

const { PORT, between, equal, feature, refused, run, sleep, soon, versions } = require("./feature.js");

versions("redis");
const url = `redis://127.0.0.1:${PORT}`;

async function opened(options = {}) {
  const client = createClient({ url, ...options });
  client.on("error", (error) => console.error(error));
  await client.connect();
  return client;
}

async function using(options, body) {
  const clients = await Promise.all(options.map(opened));
  try {
    await body(...clients);
  } finally {
    clients.forEach((client) => client.destroy());
  }
}

for (const RESP of [2, 3]) {
  feature(`strings, lifetimes, collections, RESP${RESP}`, () => using([{ RESP }], async (c) => {
    await c.set("k", "v", { EX: 60, NX: true });
    equal([await c.get("k"), await c.set("k", "x", { NX: true })], ["v", null]);
    between(59, await c.ttl("k"), 60);
    await c.mSet({ m1: "1", m2: "2" });
    equal(await c.mGet(["m1", "none", "m2"]), ["1", null, "2"]);
    await c.hSet("h", { a: 1, b: 2 });
    equal({ ...(await c.hGetAll("h")) }, { a: "1", b: "2" });
    await c.zAdd("z", [{ score: 1, value: "a" }, { score: 2.5, value: "b" }]);
    equal((await c.zRangeWithScores("z", 0, -1)).map(({ value, score }) => [value, score]), [["a", 1], ["b", 2.5]]);
    await c.sAdd("s", ["a", "b"]);
    equal([...(await c.sMembers("s"))].sort(), ["a", "b"]);
  }));
}

feature("incr, 8 clients", () => using(Array(9).fill({}), async (first, ...clients) => {
  await Promise.all(clients.map(async (c) => { for (let i = 0; i < 200; i++) await c.incr("n"); }));
  equal(await first.get("n"), "1600");
}));

feature("MULTI, EXEC, WATCH", () => using([{}, {}], async (one, other) => {
  equal((await one.multi().set("m", "1").append("m", "2").get("m").exec())[2], "12");
  await one.watch("m");
  await other.set("m", "changed");
  await refused(one.multi().set("m", "lost").exec());
  equal(await other.get("m"), "changed");
}));

feature("scripts (EVALSHA), also after SCRIPT FLUSH", () => {
  const add = defineScript({
    SCRIPT: "return redis.call('incrby', KEYS[1], ARGV[1])",
    NUMBER_OF_KEYS: 1,
    parseCommand(parser, key, number) {
      parser.pushKey(key);
      parser.push(String(number));
    },
    transformReply: (reply) => reply,
  });
  return using([{ scripts: { add } }], async (c) => {
    equal([await c.add("n", 5), await c.add("n", 5)], [5, 10]);
    await c.scriptFlush();
    equal(await c.add("n", 5), 15);
  });
});

feature("publish and subscribe, channels and patterns", () => using([{}, {}], async (one, other) => {
  const heard = [];
  await one.subscribe("news", (message) => heard.push(message));
  await one.pSubscribe("n*", (message, channel) => heard.push(channel));
  equal(await other.publish("news", "x"), 2);
  await soon(() => heard.length === 2);
  equal(heard.sort(), ["news", "x"]);
}));

feature("scanIterator, 1000 keys", () => using([{}], async (c) => {
  await Promise.all(Array.from({ length: 1000 }, (_, i) => c.set(`k${i}`, i)));
  const found = new Set();
  for await (const keys of c.scanIterator({ MATCH: "k*", COUNT: 50 })) [keys].flat().forEach((key) => found.add(key));
  equal(found.size, 1000);
}));

feature("a blocking pop is woken", () => using([{}, {}], async (one, other) => {
  const found = one.blPop("q", 5);
  await sleep(100);
  await other.rPush("q", "x");
  equal((await found).element, "x");
}));

feature("a pool of 4, 100 requests at a time", async () => {
  const pool = await createClientPool({ url }, { minimum: 1, maximum: 4 }).connect();
  await Promise.all(Array.from({ length: 100 }, () => pool.incr("n")));
  equal(await pool.get("n"), "100");
  await pool.destroy();
});

feature("SELECT: flushDb of one database leaves the other", () => using([{}, { database: 1 }], async (one, other) => {
  await one.set("k", "0");
  await other.set("k", "1");
  await other.flushDb();
  equal([await one.get("k"), await other.get("k")], ["0", null]);
}));

const clientSideCache = { ttl: 0, maxEntries: 100, evictPolicy: "LRU", recordStats: true };

feature("client-side cache (RESP3): hits, and another client's change is seen", () =>
  using([{ RESP: 3, clientSideCache }, {}], async (cached, other) => {
    await other.set("k", "old");
    equal([await cached.get("k"), await cached.get("k")], ["old", "old"]);
    await other.set("k", "new");
    await soon(async () => (await cached.get("k")) === "new");
    await other.flushAll();
    await soon(async () => (await cached.get("k")) === null);
  }));

feature("client-side cache of a pool (RESP3)", async () => {
  const pool = await createClientPool({ url, RESP: 3 }, { clientSideCache, minimum: 2, maximum: 4 }).connect();
  await using([{}], async (other) => {
    await other.set("k", "old");
    equal(await Promise.all(Array.from({ length: 20 }, () => pool.get("k"))), Array(20).fill("old"));
    await other.set("k", "new");
    await soon(async () => (await pool.get("k")) === "new");
  });
  await pool.destroy();
});

run();
