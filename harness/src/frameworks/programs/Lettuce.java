// Lettuce: its client-side cache, transactions, messages, scripts. See Feature.java.

import io.lettuce.core.KeyScanCursor;
import io.lettuce.core.RedisClient;
import io.lettuce.core.ScanArgs;
import io.lettuce.core.ScanCursor;
import io.lettuce.core.ScriptOutputType;
import io.lettuce.core.SetArgs;
import io.lettuce.core.TrackingArgs;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.api.sync.RedisCommands;
import io.lettuce.core.pubsub.RedisPubSubAdapter;
import io.lettuce.core.support.caching.CacheAccessor;
import io.lettuce.core.support.caching.CacheFrontend;
import io.lettuce.core.support.caching.ClientSideCaching;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;

class Lettuce extends Feature {
  public static void main(String[] words) {
    begin(words);
    version("lettuce-core", io.lettuce.core.LettuceVersion.getVersion());
    RedisClient client = RedisClient.create("redis://127.0.0.1:" + port);
    StatefulRedisConnection<String, String> connection = client.connect();
    RedisCommands<String, String> redis = connection.sync();

    feature("strings, lifetimes, collections", () -> {
      equal(redis.set("k", "v", SetArgs.Builder.ex(60).nx()), "OK");
      equal(redis.set("k", "x", SetArgs.Builder.nx()), null);
      between(59, redis.ttl("k"), 60);
      redis.hset("h", Map.of("a", "1"));
      equal(redis.hgetall("h"), Map.of("a", "1"));
      redis.sadd("s", "a", "b");
      equal(redis.smembers("s"), Set.of("a", "b"));
      redis.zadd("z", 1, "a");
      equal(redis.zscore("z", "a"), 1.0);
      redis.psetex("short", 200, "v");
      Thread.sleep(300);
      equal(redis.get("short"), null);
    });

    feature("incr, 8 threads", () -> {
      inThreads(8, () -> {
        for (int i = 0; i < 200; i++) redis.incr("n");
      });
      equal(redis.get("n"), "1600");
    });

    feature("MULTI, EXEC, WATCH", () -> {
      try (var own = client.connect()) {
        var mine = own.sync();
        mine.multi();
        mine.set("m", "1");
        mine.append("m", "2");
        equal(mine.exec().get(1), 2L);
        mine.watch("m");
        redis.set("m", "changed");
        mine.multi();
        mine.set("m", "lost");
        equal(mine.exec().wasDiscarded(), true);
        equal(redis.get("m"), "changed");
      }
    });

    feature("scripts: EVAL, EVALSHA, SCRIPT LOAD", () -> {
      String script = "return redis.call('incrby', KEYS[1], ARGV[1])";
      equal(redis.eval(script, ScriptOutputType.INTEGER, new String[] {"n"}, "5"), 5L);
      String digest = redis.scriptLoad(script);
      equal(redis.evalsha(digest, ScriptOutputType.INTEGER, new String[] {"n"}, "5"), 10L);
    });

    feature("scan, 1000 keys", () -> {
      for (int i = 0; i < 1000; i++) redis.set("k" + i, "" + i);
      Set<String> found = new HashSet<>();
      KeyScanCursor<String> page = redis.scan(ScanCursor.INITIAL, ScanArgs.Builder.matches("k*").limit(50));
      found.addAll(page.getKeys());
      while (!page.isFinished()) {
        page = redis.scan(page, ScanArgs.Builder.matches("k*").limit(50));
        found.addAll(page.getKeys());
      }
      equal(found.size(), 1000);
    });

    feature("publish and subscribe", () -> {
      List<String> heard = new CopyOnWriteArrayList<>();
      try (var subscriber = client.connectPubSub()) {
        subscriber.addListener(new RedisPubSubAdapter<>() {
          @Override
          public void message(String channel, String message) {
            heard.add(channel + " " + message);
          }

          @Override
          public void message(String pattern, String channel, String message) {
            heard.add(pattern + " " + message);
          }
        });
        subscriber.sync().subscribe("news");
        subscriber.sync().psubscribe("n*");
        equal(redis.publish("news", "x"), 2L);
        soon(() -> heard.size() == 2);
        equal(Set.copyOf(heard), Set.of("news x", "n* x"));
      }
    });

    feature("SELECT: flushdb of one database leaves the other", () -> {
      try (var other = client.connect()) {
        other.sync().select(1);
        redis.set("k", "0");
        other.sync().set("k", "1");
        other.sync().flushdb();
        equal(redis.get("k"), "0");
        equal(other.sync().get("k"), null);
      }
    });

    feature("client-side cache: hits, and another client's change is seen", () -> {
      Map<String, String> local = new ConcurrentHashMap<>();
      try (var cached = client.connect()) {
        CacheFrontend<String, String> frontend =
            ClientSideCaching.enable(CacheAccessor.forMap(local), cached, TrackingArgs.Builder.enabled());
        redis.set("k", "old");
        equal(frontend.get("k"), "old");
        equal(local, Map.of("k", "old"));
        redis.set("k", "new");
        soon(() -> "new".equals(frontend.get("k")));
        redis.del("k");
        soon(() -> frontend.get("k") == null);
      }
    });

    System.exit(0);
  }
}
