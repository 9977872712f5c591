// Runs features of a library, and prints a line for each: "ok WHAT", or "not ok WHAT -- why".

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.Socket;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

class Feature {
  static final long LIMIT_S = 30;
  static final int WHY_LONGEST = 200;
  static int port;

  interface Body {
    void run() throws Exception;
  }

  interface Condition {
    boolean holds() throws Exception;
  }

  static void begin(String[] words) {
    port = Integer.parseInt(words[1]);
  }

  static void feature(String name, Body body) {
    CompletableFuture<Void> done = new CompletableFuture<>();
    Thread thread = new Thread(() -> {
      try {
        emptied();
        body.run();
        done.complete(null);
      } catch (Throwable error) {
        done.completeExceptionally(error);
      }
    });
    thread.setDaemon(true);
    thread.start();
    try {
      done.get(LIMIT_S, TimeUnit.SECONDS);
      System.out.println("ok " + name);
    } catch (Exception error) {
      Throwable cause = error.getCause() == null ? error : error.getCause();
      String why = error instanceof TimeoutException ? "not done after " + LIMIT_S + " s" : cause.toString();
      why = why.replaceAll("\\s+", " ");
      System.out.println("not ok " + name + " -- " + why.substring(0, Math.min(why.length(), WHY_LONGEST)));
    }
  }

  static void emptied() throws Exception {
    try (Socket socket = new Socket("127.0.0.1", port)) {
      socket.getOutputStream().write("FLUSHALL\r\n".getBytes());
      equal(new BufferedReader(new InputStreamReader(socket.getInputStream())).readLine(), "+OK");
    }
  }

  static void equal(Object found, Object wanted) {
    if (!Objects.equals(found, wanted)) throw new AssertionError(found + " instead of " + wanted);
  }

  static void between(long least, long found, long most) {
    if (found < least || found > most) {
      throw new AssertionError(found + " is not from " + least + " to " + most);
    }
  }

  /** Waits until the condition holds. */
  static void soon(Condition condition) throws Exception {
    for (int tries = 0; !condition.holds(); tries++) {
      if (tries == 500) throw new AssertionError("not so after 5 s");
      Thread.sleep(10);
    }
  }

  /** Runs the body in threads, and throws what one has thrown. */
  static void inThreads(int number, Body body) throws Exception {
    List<CompletableFuture<Void>> all = new ArrayList<>();
    for (int i = 0; i < number; i++) {
      CompletableFuture<Void> one = new CompletableFuture<>();
      all.add(one);
      new Thread(() -> {
        try {
          body.run();
          one.complete(null);
        } catch (Throwable error) {
          one.completeExceptionally(error);
        }
      }).start();
    }
    for (CompletableFuture<Void> one : all) one.get();
  }

  static void version(String name, String version) {
    System.out.println("version " + name + " " + version);
  }
}
