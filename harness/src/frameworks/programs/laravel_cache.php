<?php
// Laravel's cache with phpredis, or with PHP's memcached. A line a feature: "ok WHAT", or "not ok WHAT -- why".
require "Illuminate/Cache/autoload.php";
if ($argv[1] === "resp") {
    require "Illuminate/Container/autoload.php";
    require "Illuminate/Redis/autoload.php";
}

use Illuminate\Cache\MemcachedConnector;
use Illuminate\Cache\MemcachedStore;
use Illuminate\Cache\RateLimiter;
use Illuminate\Cache\RedisStore;
use Illuminate\Cache\Repository;
use Illuminate\Container\Container;
use Illuminate\Redis\RedisManager;

[, $kind, $port] = $argv;
$isResp = $kind === "resp";
foreach (["php-illuminate-cache", "php-redis", "php-memcached"] as $package) {
    $version = trim((string) shell_exec("dpkg-query -W -f '\${Version}' $package 2>/dev/null"));
    if ($version !== "") {
        echo "version $package $version\n";
    }
}

function redis(): RedisManager
{
    global $port;
    $place = fn ($database) => ["host" => "127.0.0.1", "port" => (int) $port, "database" => $database];
    $places = ["default" => $place(0), "other" => $place(1), "options" => ["prefix" => "app_"]];
    return new RedisManager(new Container(), "phpredis", $places);
}

function cache(string $connection = "default"): Repository
{
    global $isResp, $port;
    if ($isResp) {
        return new Repository(new RedisStore(redis(), "cache", $connection));
    }
    $memcached = (new MemcachedConnector())->connect([["host" => "127.0.0.1", "port" => (int) $port, "weight" => 1]]);
    return new Repository(new MemcachedStore($memcached, "cache"));
}

function feature(string $name, callable $body, bool $runs = true): void
{
    global $isResp, $port;
    if (!$runs) {
        return;
    }
    try {
        $socket = fsockopen("127.0.0.1", (int) $port);
        fwrite($socket, $isResp ? "FLUSHALL\r\n" : "flush_all\r\n");
        fgets($socket);
        fclose($socket);
        $body();
        echo "ok $name\n";
    } catch (Throwable $error) {
        $why = preg_replace('/\s+/', " ", get_class($error) . ": " . $error->getMessage());
        echo "not ok $name -- " . substr($why, 0, 200) . "\n";
    }
}

function equal($found, $wanted): void
{
    if ($found !== $wanted) {
        throw new Exception(json_encode($found) . " instead of " . json_encode($wanted));
    }
}

feature("put, get, has, pull, forget, forever", function () {
    $cache = cache();
    foreach ([["a" => [1, null]], "text", "\x00\xff", true] as $value) {
        equal($cache->put("k", $value, 60), true);
        equal(cache()->get("k"), $value);
    }
    equal([$cache->has("k"), $cache->pull("k"), $cache->get("k", "none")], [true, true, "none"]);
    equal([$cache->forever("f", 1), (int) $cache->get("f"), $cache->forget("f"), $cache->has("f")], [true, 1, true, false]);
});

feature("add: once, with a lifetime; remember", function () {
    $cache = cache();
    equal([$cache->add("k", 1, 60), $cache->add("k", 2, 60), (int) $cache->get("k")], [true, false, 1]);
    $runs = 0;
    foreach (range(1, 3) as $_) {
        $cache->remember("r", 60, function () use (&$runs) {
            return "run " . ++$runs;
        });
    }
    equal([$cache->get("r"), $runs], ["run 1", 1]);
});

feature("lifetimes", function () {
    cache()->put("short", "v", 1);
    cache()->put("long", "v", 60);
    usleep(2_100_000);
    equal([cache()->get("short"), cache()->get("long")], [null, "v"]);
});

feature("many, putMany, deleteMultiple", function () {
    $pairs = [];
    foreach (range(0, 99) as $number) {
        $pairs["k$number"] = "v$number";
    }
    equal(cache()->putMany($pairs, 60), true);
    equal(cache()->many([...array_keys($pairs), "none"]), $pairs + ["none" => null]);
    cache()->deleteMultiple(["k0", "k1"]);
    equal([cache()->get("k1"), cache()->get("k2")], [null, "v2"]);
});

feature("increment, decrement", function () {
    cache()->put("n", 5, 60);
    equal([cache()->increment("n", 10), cache()->decrement("n", 3), (int) cache()->get("n")], [15, 12, 12]);
});

feature("lock: acquire, release, owner, expiry, block", function () {
    [$one, $other] = [cache()->getStore()->lock("l", 10), cache()->getStore()->lock("l", 10)];
    equal([$one->acquire(), $other->acquire(), $other->release()], [true, false, false]);
    equal([cache()->getStore()->restoreLock("l", $one->owner())->release(), $other->acquire()], [true, true]);
    $other->forceRelease();
    cache()->getStore()->lock("l", 1)->acquire();
    equal(cache()->getStore()->lock("l", 10)->block(4, fn () => "held"), "held");
    equal($one->get(fn () => "again"), "again");
});

feature("tags: flush of one tag", function () {
    $cache = cache();
    $cache->tags(["red", "all"])->put("a", "1", 60);
    $cache->tags(["blue", "all"])->put("b", "2", 60);
    $cache->tags(["red", "all"])->forever("f", "3");
    $cache->put("a", "plain", 60);
    $found = fn () => [
        cache()->tags(["red", "all"])->get("a"),
        cache()->tags(["red", "all"])->get("f"),
        cache()->tags(["blue", "all"])->get("b"),
        cache()->get("a"),
    ];
    equal($found(), ["1", "3", "2", "plain"]);
    $cache->tags("red")->flush();
    equal($found(), [null, null, "2", "plain"]);
    $cache->tags("all")->flush();
    equal($found(), [null, null, null, "plain"]);
});

feature("RateLimiter: attempts, remaining, availableIn, clear", function () {
    $limiter = new RateLimiter(cache());
    $found = array_map(fn () => $limiter->attempt("u", 3, fn () => true, 60), range(1, 5));
    equal($found, [true, true, true, false, false]);
    equal([$limiter->remaining("u", 3), $limiter->availableIn("u") >= 59], [0, true]);
    $limiter->clear("u");
    equal($limiter->remaining("u", 3), 3);
});

feature("Redis::throttle and Redis::funnel", function () {
    $redis = redis()->connection();
    $passes = fn ($limit) => $limit->block(0)->then(fn () => true, fn () => false);
    $found = array_map(fn () => $passes($redis->throttle("t")->allow(3)->every(60)), range(1, 5));
    equal($found, [true, true, true, false, false]);
    $inner = null;
    $outer = $redis->funnel("f")->limit(1)->block(0)->then(function () use ($redis, $passes, &$inner) {
        $inner = $passes($redis->funnel("f")->limit(1));
        return true;
    });
    equal([$outer, $inner, $passes($redis->funnel("f")->limit(1))], [true, false, true]);
}, $isResp);

feature("flush of database 1 leaves database 0", function () {
    cache()->put("k", "0", 60);
    cache("other")->put("k", "1", 60);
    cache("other")->flush();
    equal([cache()->get("k"), cache("other")->get("k")], ["0", null]);
}, $isResp);
