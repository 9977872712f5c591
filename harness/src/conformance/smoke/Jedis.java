// Tests Jedis against a server on this port. Prints a line for each check: "ok" or "not ok".

import java.util.Arrays;
import java.util.List;
import redis.clients.jedis.Pipeline;
import redis.clients.jedis.Response;
import redis.clients.jedis.Transaction;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.params.ScanParams;
import redis.clients.jedis.params.SetParams;

class Smoke {
  static void check(String name, boolean held) {
    System.out.println((held ? "ok " : "not ok ") + name);
  }

  public static void main(String[] words) {
    try (var jedis = new redis.clients.jedis.Jedis("127.0.0.1", Integer.parseInt(words[0]))) {
      jedis.flushAll();
      check("set and get", jedis.set("a", "1").equals("OK") && jedis.get("a").equals("1"));
      check("a miss", jedis.get("none") == null);
      byte[] bytes = new byte[256];
      for (int i = 0; i < 256; i++) bytes[i] = (byte) i;
      jedis.set("b".getBytes(), bytes);
      check("all bytes", Arrays.equals(jedis.get("b".getBytes()), bytes));
      jedis.set("t", "v", SetParams.setParams().px(60000).nx());
      check("lifetimes", jedis.pttl("t") > 0);
      check("counting", jedis.incrBy("n", 5) == 5);
      check("several at a time", jedis.mget("a", "none", "n").equals(Arrays.asList("1", null, "5")));
      Pipeline pipe = jedis.pipelined();
      Response<String> found = null;
      for (int i = 0; i < 50; i++) {
        pipe.set("p" + i, "" + i);
        found = pipe.get("p" + i);
      }
      pipe.sync();
      check("a pipeline", found.get().equals("49"));
      Transaction transaction = jedis.multi();
      transaction.incr("n");
      List<Object> done = transaction.exec();
      check("a transaction", done.equals(List.of(6L)));
      int scanned = 0;
      String cursor = ScanParams.SCAN_POINTER_START;
      do {
        var page = jedis.scan(cursor, new ScanParams().match("p*").count(9));
        scanned += page.getResult().size();
        cursor = page.getCursor();
      } while (!cursor.equals(ScanParams.SCAN_POINTER_START));
      check("a scan", scanned == 50);
      try {
        jedis.xlen("s");
        check("what there is not is an error", false);
      } catch (JedisDataException error) {
        check("what there is not is an error", error.getMessage().contains("unknown command"));
      }
    }
  }
}
