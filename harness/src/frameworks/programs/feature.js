// Runs features of a framework, and prints a line for each: "ok WHAT", or "not ok WHAT -- why".
const assert = require("assert");
const fs = require("fs");
const net = require("net");
const path = require("path");

const KIND = process.argv[2];
const PORT = Number(process.argv[3]);
const LIMIT_MS = 30000;
const WHY_LONGEST = 200;
const features = [];

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** The versions of packages, which may not export their package.json. */
function versions(...packages) {
  for (const name of packages) {
    const file = path.join(__dirname, "node_modules", name, "package.json");
    console.log("version", name, JSON.parse(fs.readFileSync(file)).version);
  }
}

function feature(name, body) {
  features.push([name, body]);
}

function equal(found, wanted) {
  const [a, b] = [JSON.stringify(found), JSON.stringify(wanted)];
  if (!require("util").isDeepStrictEqual(found, wanted)) throw new Error(`${a} instead of ${b}`);
}

function between(least, found, most) {
  if (!(least <= found && found <= most)) throw new Error(`${found} is not from ${least} to ${most}`);
}

/** Waits until the condition holds. */
async function soon(condition, limitMs = 5000) {
  const begun = Date.now();
  while (!(await condition())) {
    if (Date.now() - begun > limitMs) throw new Error(`not so after ${limitMs} ms: ${condition}`);
    await sleep(10);
  }
}

/** Returns what the promise was rejected with. */
async function refused(promise) {
  try {
    await promise;
  } catch (error) {
    return error;
  }
  throw new Error("it was not refused");
}

/** Makes the server forget everything. */
function emptied() {
  return new Promise((resolve, reject) => {
    const socket = net.connect(PORT, "127.0.0.1", () => socket.write(KIND === "resp" ? "FLUSHALL\r\n" : "flush_all\r\n"));
    socket.once("error", reject);
    socket.once("data", (data) => {
      socket.destroy();
      /^\+?OK/.test(data) ? resolve() : reject(new Error(String(data)));
    });
  });
}

async function run() {
  process.on("unhandledRejection", (error) => console.error(error));
  process.on("uncaughtException", (error) => console.error(error));
  for (const [name, body] of features) {
    try {
      await emptied();
      const late = sleep(LIMIT_MS).then(() => assert.fail(`not done after ${LIMIT_MS} ms`));
      await Promise.race([body(), late]);
      console.log(`ok ${name}`);
    } catch (error) {
      const why = String((error && error.message) || JSON.stringify(error)).split(/\s+/).join(" ");
      console.log(`not ok ${name} -- ${why.slice(0, WHY_LONGEST)}`);
    }
  }
  process.exit(0);
}

module.exports = { KIND, PORT, between, equal, feature, refused, run, sleep, soon, versions };
