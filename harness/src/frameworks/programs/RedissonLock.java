// Redisson: its locks, limiters, maps and caches. See Feature.java.

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RLocalCachedMap;
import org.redisson.api.RMapCache;
import org.redisson.api.RRateLimiter;
import org.redisson.api.RReadWriteLock;
import org.redisson.api.RSemaphore;
import org.redisson.api.RateType;
import org.redisson.api.RedissonClient;
import org.redisson.api.options.LocalCachedMapOptions;
import org.redisson.config.Config;

class RedissonLock extends Feature {
  static RedissonClient opened() {
    Config config = new Config();
    config.setLockWatchdogTimeout(3000);
    config.useSingleServer()
        .setAddress("redis://127.0.0.1:" + port)
        .setConnectionMinimumIdleSize(2)
        .setConnectionPoolSize(16);
    return Redisson.create(config);
  }

  public static void main(String[] words) {
    begin(words);
    version("redisson", Redisson.class.getPackage().getImplementationVersion());
    RedissonClient one = opened();
    RedissonClient other = opened();

    feature("RLock: acquire, reentry, release, owner, expiry", () -> {
      RLock lock = one.getLock("l");
      RLock stranger = other.getLock("l");
      lock.lock(10, TimeUnit.SECONDS);
      equal(lock.tryLock(), true);
      equal(lock.getHoldCount(), 2);
      equal(stranger.tryLock(), false);
      between(9000, stranger.remainTimeToLive(), 30000);
      lock.unlock();
      equal(stranger.isLocked(), true);
      lock.unlock();
      equal(stranger.tryLock(), true);
      stranger.unlock();
      lock.lock(300, TimeUnit.MILLISECONDS);
      equal(stranger.tryLock(3, TimeUnit.SECONDS), true);
      stranger.unlock();
    });

    feature("RLock: a waiter is woken by the release", () -> {
      RLock lock = one.getLock("l");
      lock.lock(20, TimeUnit.SECONDS);
      AtomicInteger waited = new AtomicInteger();
      Thread waiter = new Thread(() -> {
        long begun = System.currentTimeMillis();
        other.getLock("l").lock();
        waited.set((int) (System.currentTimeMillis() - begun));
        other.getLock("l").unlock();
      });
      waiter.start();
      Thread.sleep(500);
      lock.unlock();
      waiter.join(10_000);
      between(300, waited.get(), 1500);
    });

    feature("RLock: the watchdog renews it", () -> {
      RLock lock = one.getLock("l");
      lock.lock();
      Thread.sleep(4000);
      equal(other.getLock("l").tryLock(), false);
      lock.unlock();
    });

    feature("RLock: 8 threads of two clients exclude each other", () -> {
      var number = one.getBucket("n");
      AtomicInteger turn = new AtomicInteger();
      inThreads(8, () -> {
        RedissonClient mine = turn.getAndIncrement() % 2 == 0 ? one : other;
        for (int i = 0; i < 10; i++) {
          RLock lock = mine.getLock("l");
          lock.lock();
          try {
            Integer now = (Integer) number.get();
            Thread.sleep(1);
            number.set(now == null ? 1 : now + 1);
          } finally {
            lock.unlock();
          }
        }
      });
      equal(number.get(), 80);
    });

    feature("fair lock, read-write lock, MultiLock", () -> {
      RLock fair = one.getFairLock("fair");
      fair.lock();
      equal(other.getFairLock("fair").tryLock(), false);
      fair.unlock();
      equal(other.getFairLock("fair").tryLock(5, TimeUnit.SECONDS), true);
      RReadWriteLock both = one.getReadWriteLock("rw");
      RReadWriteLock same = other.getReadWriteLock("rw");
      both.readLock().lock();
      equal(same.readLock().tryLock(), true);
      equal(same.writeLock().tryLock(), false);
      same.readLock().unlock();
      both.readLock().unlock();
      equal(same.writeLock().tryLock(), true);
      equal(both.readLock().tryLock(), false);
      same.writeLock().unlock();
      RLock multi = one.getMultiLock(one.getLock("a"), one.getLock("b"));
      multi.lock();
      equal(other.getLock("b").tryLock(), false);
      multi.unlock();
      equal(other.getLock("b").tryLock(), true);
    });

    feature("semaphore, count-down latch, atomic long", () -> {
      RSemaphore semaphore = one.getSemaphore("s");
      semaphore.trySetPermits(2);
      equal(semaphore.tryAcquire(2), true);
      equal(other.getSemaphore("s").tryAcquire(), false);
      semaphore.release();
      equal(other.getSemaphore("s").tryAcquire(), true);
      one.getCountDownLatch("c").trySetCount(1);
      new Thread(() -> other.getCountDownLatch("c").countDown()).start();
      equal(one.getCountDownLatch("c").await(5, TimeUnit.SECONDS), true);
      inThreads(8, () -> {
        for (int i = 0; i < 200; i++) one.getAtomicLong("n").incrementAndGet();
      });
      equal(one.getAtomicLong("n").get(), 1600L);
      equal(one.getAtomicLong("n").compareAndSet(1600, 1), true);
    });

    feature("RRateLimiter: exact, 8 threads", () -> {
      RRateLimiter limiter = one.getRateLimiter("r");
      limiter.trySetRate(RateType.OVERALL, 50, Duration.ofHours(1));
      AtomicInteger allowed = new AtomicInteger();
      inThreads(8, () -> {
        for (int i = 0; i < 20; i++) if (one.getRateLimiter("r").tryAcquire()) allowed.incrementAndGet();
      });
      equal(allowed.get(), 50);
    });

    feature("RBucket, RMap, RMapCache", () -> {
      one.getBucket("b").set("v", Duration.ofSeconds(60));
      equal(other.getBucket("b").get(), "v");
      equal(one.getBucket("b").setIfAbsent("x"), false);
      equal(one.getBucket("b").compareAndSet("v", "w"), true);
      Map<String, Integer> map = one.getMap("m");
      map.put("a", 1);
      equal(map.putIfAbsent("a", 2), 1);
      equal(other.getMap("m").readAllMap(), Map.of("a", 1));
      RMapCache<String, String> cache = one.getMapCache("mc");
      cache.put("short", "1", 300, TimeUnit.MILLISECONDS);
      cache.put("long", "2", 60, TimeUnit.SECONDS);
      equal(cache.get("short"), "1");
      Thread.sleep(500);
      equal(cache.get("short"), null);
      equal(cache.get("long"), "2");
      equal(cache.remove("long"), "2");
    });

    feature("RLocalCachedMap: another client's change is seen", () -> {
      RLocalCachedMap<String, String> mine = one.getLocalCachedMap(LocalCachedMapOptions.name("lm"));
      RLocalCachedMap<String, String> theirs = other.getLocalCachedMap(LocalCachedMapOptions.name("lm"));
      mine.put("k", "old");
      equal(theirs.get("k"), "old");
      soon(() -> theirs.get("k").equals(theirs.getCachedMap().get("k")));
      mine.put("k", "new");
      soon(() -> "new".equals(theirs.get("k")));
    });

    feature("topics, sets, sorted sets, queues", () -> {
      List<String> heard = new CopyOnWriteArrayList<>();
      one.getTopic("t").addListener(String.class, (channel, message) -> heard.add(message));
      other.getTopic("t").publish("x");
      soon(() -> heard.equals(List.of("x")));
      one.getScoredSortedSet("z").add(2, "b");
      one.getScoredSortedSet("z").add(1, "a");
      equal(new ArrayList<>(other.getScoredSortedSet("z").readAll()), List.of("a", "b"));
      equal(one.getSet("s").add("a"), true);
      equal(one.getSet("s").add("a"), false);
      Thread later = new Thread(() -> other.getBlockingQueue("q").offer("job"));
      later.start();
      equal(one.getBlockingQueue("q").poll(5, TimeUnit.SECONDS), "job");
    });

    one.shutdown();
    other.shutdown();
    System.exit(0);
  }
}
