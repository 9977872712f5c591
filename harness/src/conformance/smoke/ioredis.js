// Tests ioredis against a server on this port. Prints a line for each check: "ok" or "not ok".
const Redis = require("ioredis");

const redis = new Redis(Number(process.argv[2]), "127.0.0.1", { lazyConnect: true });
const check = (name, held) => console.log(held ? "ok" : "not ok", name);

async function main() {
  await redis.connect();
  await redis.flushall();
  check("set and get", (await redis.set("a", "1")) === "OK" && (await redis.get("a")) === "1");
  check("a miss", (await redis.get("none")) === null);
  const bytes = Buffer.from([...Array(256).keys()]);
  await redis.set("b", bytes);
  check("all bytes", (await redis.getBuffer("b")).equals(bytes));
  check("lifetimes", (await redis.set("t", "v", "PX", 60000)) === "OK" && (await redis.pttl("t")) > 0);
  const answers = await redis.pipeline().incr("n").incr("n").get("n").exec();
  check("a pipeline", answers.every(([error]) => error === null) && answers[2][1] === "2");
  const done = await redis.multi().set("m", "1").append("m", "2").get("m").exec();
  check("a transaction", done[2][1] === "12");
  await redis.mset("x1", "1", "x2", "2");
  const found = [];
  for await (const keys of redis.scanStream({ match: "x*" })) found.push(...keys);
  check("a scan", found.sort().join() === "x1,x2");
  const refused = await redis.xlen("s").catch((error) => error.message);
  check("what there is not is an error", /unknown command/i.test(refused));
  await redis.quit();
}

main().catch((error) => {
  console.log("not ok", error.message);
  process.exit(1);
});
