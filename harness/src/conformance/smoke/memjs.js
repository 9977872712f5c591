// Tests memjs, which uses the binary protocol, against a server on this port. Prints a line for each check: "ok" or
// "not ok".
const { Client } = require("memjs");

const client = Client.create(`127.0.0.1:${process.argv[2]}`, { retries: 1, timeout: 2 });
const check = (name, held) => console.log(held ? "ok" : "not ok", name);

async function main() {
  check("set and get", (await client.set("a", "1", { expires: 60 })) && (await client.get("a")).value.toString() === "1");
  check("a miss", (await client.get("none")).value === null);
  check("add only if absent", (await client.add("a", "2", {})) === false && (await client.add("c", "2", {})));
  check("replace", (await client.replace("c", "3", {})) && (await client.get("c")).value.toString() === "3");
  check("counting", (await client.increment("memjs-n", 1, { initial: 5, expires: 60 })).value === 5);
  check("more counting", (await client.increment("memjs-n", 2, {})).value === 7);
  check("append", (await client.append("a", "x")) && (await client.get("a")).value.toString() === "1x");
  check("take away", (await client.delete("a")) && (await client.get("a")).value === null);
  const long = Buffer.alloc(500000, 7);
  check("a long value", (await client.set("l", long, {})) && (await client.get("l")).value.equals(long));
  client.close();
}

main().catch((error) => {
  console.log("not ok", error.message);
  process.exit(1);
});
