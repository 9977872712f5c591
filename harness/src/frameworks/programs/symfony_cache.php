<?php
// Symfony's cache with phpredis, or with PHP's memcached. A line a feature: "ok WHAT", or "not ok WHAT -- why".
require "Psr/SimpleCache/autoload.php";
require "Symfony/Component/Cache/autoload.php";

use Symfony\Component\Cache\Adapter\MemcachedAdapter;
use Symfony\Component\Cache\Adapter\RedisAdapter;
use Symfony\Component\Cache\Adapter\RedisTagAwareAdapter;
use Symfony\Component\Cache\Adapter\TagAwareAdapter;
use Symfony\Component\Cache\Psr16Cache;

const DEBIAN = ["php-symfony-cache", "php-redis", "php-memcached"];
[, $kind, $port] = $argv;
$isResp = $kind === "resp";
foreach (DEBIAN as $package) {
    $version = trim((string) shell_exec("dpkg-query -W -f '\${Version}' $package 2>/dev/null"));
    if ($version !== "") {
        echo "version $package $version\n";
    }
}

function adapter(string $namespace = "", int $database = 0, int $lifetime = 0)
{
    global $isResp, $port;
    if ($isResp) {
        return new RedisAdapter(RedisAdapter::createConnection("redis://127.0.0.1:$port/$database"), $namespace, $lifetime);
    }
    return new MemcachedAdapter(MemcachedAdapter::createConnection("memcached://127.0.0.1:$port"), $namespace, $lifetime);
}

function tagged()
{
    global $isResp, $port;
    if ($isResp) {
        return new RedisTagAwareAdapter(RedisAdapter::createConnection("redis://127.0.0.1:$port"), "t");
    }
    return new TagAwareAdapter(adapter("t"), adapter("u"), 0);
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

function save($pool, string $key, $value, array $tags = []): bool
{
    $item = $pool->getItem($key)->set($value);
    return $pool->save($tags ? $item->tag($tags) : $item);
}

feature("items: save, get, has, delete", function () {
    $pool = adapter();
    foreach ([["a" => [1, null]], "text", "\x00\xff", 7, null] as $value) {
        equal(save($pool, "k", $value), true);
        equal([adapter()->getItem("k")->isHit(), adapter()->getItem("k")->get()], [true, $value]);
    }
    equal([$pool->hasItem("k"), $pool->deleteItem("k"), $pool->hasItem("k")], [true, true, false]);
});

feature("several items, deferred", function () {
    $pool = adapter();
    foreach (range(0, 99) as $number) {
        $pool->saveDeferred($pool->getItem("k$number")->set($number));
    }
    equal($pool->commit(), true);
    $found = [];
    foreach ($pool->getItems(array_map(fn ($number) => "k$number", range(0, 100))) as $key => $item) {
        $found[] = $item->isHit() ? $item->get() : null;
    }
    equal($found, [...range(0, 99), null]);
    equal([$pool->deleteItems(["k0", "k1"]), $pool->hasItem("k1"), $pool->hasItem("k2")], [true, false, true]);
});

feature("lifetimes", function () {
    $pool = adapter();
    $pool->save($pool->getItem("short")->set(1)->expiresAfter(1));
    $pool->save($pool->getItem("long")->set(1)->expiresAfter(60));
    equal($pool->getItem("short")->isHit(), true);
    usleep(2_100_000);
    equal([$pool->getItem("short")->isHit(), $pool->getItem("long")->isHit()], [false, true]);
});

feature("get() with a callback: it runs once", function () {
    $pool = adapter();
    $runs = 0;
    foreach (range(1, 3) as $_) {
        $found = $pool->get("k", function ($item) use (&$runs) {
            $item->expiresAfter(60);
            return ++$runs;
        });
    }
    equal([$found, $runs], [1, 1]);
});

feature("clear of a namespace leaves another; by prefix", function () use ($isResp) {
    [$one, $other] = [adapter("one"), adapter("other")];
    foreach (range(0, 199) as $number) {
        save($one, "k$number", $number);
    }
    save($other, "k1", 2);
    equal($one->clear(), true);
    equal([adapter("one")->hasItem("k1"), adapter("one")->hasItem("k199")], [false, false]);
    equal(adapter("other")->getItem("k1")->get(), 2);
});

feature("clear of database 1 leaves database 0", function () {
    [$one, $other] = [adapter("", 0), adapter("", 1)];
    save($one, "k", 0);
    save($other, "k", 1);
    $other->clear();
    equal([$one->getItem("k")->get(), $other->hasItem("k")], [0, false]);
}, $isResp);

feature("tags: invalidateTags", function () {
    $pool = tagged();
    equal(save($pool, "a", 1, ["red", "all"]), true);
    equal(save($pool, "b", 2, ["blue", "all"]), true);
    equal(save($pool, "c", 3), true);
    $hits = fn () => array_map(fn ($key) => tagged()->getItem($key)->isHit(), ["a", "b", "c"]);
    equal($hits(), [true, true, true]);
    equal([$pool->invalidateTags(["red"]), $hits()], [true, [false, true, true]]);
    equal([$pool->invalidateTags(["all"]), $hits()], [true, [false, false, true]]);
});

feature("tags of 500 items; an item loses a tag", function () {
    $pool = tagged();
    foreach (range(0, 499) as $number) {
        $pool->saveDeferred($pool->getItem("k$number")->set($number)->tag("many"));
    }
    equal($pool->commit(), true);
    save($pool, "k7", "kept");
    equal($pool->invalidateTags(["many"]), true);
    equal([tagged()->hasItem("k0"), tagged()->hasItem("k499"), tagged()->getItem("k7")->get()], [false, false, "kept"]);
});

feature("PSR-16", function () {
    $cache = new Psr16Cache(adapter());
    $cache->setMultiple(["a" => 1, "b" => 2], 60);
    $found = [...$cache->getMultiple(["a", "none", "b"], 0)];
    equal([$found["a"], $found["none"], $found["b"]], [1, 0, 2]);
    equal([$cache->delete("a"), $cache->has("a"), $cache->get("b")], [true, false, 2]);
});
