package larder;

import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.Vector;
import site.ycsb.ByteArrayByteIterator;
import site.ycsb.ByteIterator;
import site.ycsb.DB;
import site.ycsb.DBException;
import site.ycsb.Status;

/** Memcached's text protocol for YCSB, a connection a thread. A record is one value: its fields in a row. */
public class LarderClient extends DB {
  private Socket socket;
  private DataInputStream in;
  private BufferedOutputStream out;

  @Override
  public void init() throws DBException {
    if (!"true".equals(getProperties().getProperty("writeallfields"))) {
      throw new DBException("a cache replaces whole values: set writeallfields=true");
    }
    try {
      socket = new Socket("127.0.0.1", Integer.parseInt(getProperties().getProperty("larder.port")));
      socket.setTcpNoDelay(true);
      in = new DataInputStream(new BufferedInputStream(socket.getInputStream(), 1 << 16));
      out = new BufferedOutputStream(socket.getOutputStream(), 1 << 16);
    } catch (IOException | NumberFormatException cause) {
      throw new DBException("larder.port: no server there", cause);
    }
  }

  @Override
  public void cleanup() throws DBException {
    try {
      socket.close();
    } catch (IOException cause) {
      throw new DBException(cause);
    }
  }

  @Override
  public Status read(String table, String key, Set<String> fields, Map<String, ByteIterator> result) {
    return asked("get " + key, null, answer -> {
      if (answer.equals("END")) {
        return Status.NOT_FOUND;
      }
      String[] words = answer.split(" ");
      if (words.length != 4 || !words[0].equals("VALUE") || !words[1].equals(key)) {
        return Status.UNEXPECTED_STATE;
      }
      byte[] value = in.readNBytes(Integer.parseInt(words[3]));
      if (!line().isEmpty() || !line().equals("END")) {
        return Status.UNEXPECTED_STATE;
      }
      DataInputStream record = new DataInputStream(new ByteArrayInputStream(value));
      while (record.available() > 0) {
        String field = record.readUTF();
        byte[] content = record.readNBytes(record.readInt());
        if (fields == null || fields.contains(field)) {
          result.put(field, new ByteArrayByteIterator(content));
        }
      }
      return Status.OK;
    });
  }

  @Override
  public Status insert(String table, String key, Map<String, ByteIterator> values) {
    ByteArrayOutputStream value = new ByteArrayOutputStream();
    try (DataOutputStream record = new DataOutputStream(value)) {
      for (Map.Entry<String, ByteIterator> field : values.entrySet()) {
        byte[] content = field.getValue().toArray();
        record.writeUTF(field.getKey());
        record.writeInt(content.length);
        record.write(content);
      }
    } catch (IOException cause) {
      return Status.BAD_REQUEST;
    }
    return asked("set " + key + " 0 0 " + value.size(), value.toByteArray(), answer ->
        answer.equals("STORED") ? Status.OK : Status.ERROR);
  }

  @Override
  public Status update(String table, String key, Map<String, ByteIterator> values) {
    return insert(table, key, values);
  }

  @Override
  public Status delete(String table, String key) {
    return asked("delete " + key, null, answer -> answer.equals("DELETED") ? Status.OK : Status.NOT_FOUND);
  }

  /** A cache knows no order of keys. */
  @Override
  public Status scan(String table, String first, int count, Set<String> fields,
      Vector<HashMap<String, ByteIterator>> result) {
    return Status.NOT_IMPLEMENTED;
  }

  private interface Answer {
    Status read(String line) throws IOException;
  }

  private Status asked(String command, byte[] value, Answer answer) {
    try {
      out.write((command + "\r\n").getBytes(StandardCharsets.US_ASCII));
      if (value != null) {
        out.write(value);
        out.write('\r');
        out.write('\n');
      }
      out.flush();
      return answer.read(line());
    } catch (IOException cause) {
      System.err.println(command.split(" ")[0] + ": " + cause);
      return Status.SERVICE_UNAVAILABLE;
    }
  }

  private String line() throws IOException {
    StringBuilder line = new StringBuilder();
    for (int next = in.read(); next != '\n'; next = in.read()) {
      if (next < 0) {
        throw new EOFException("the server has closed the connection");
      }
      line.append((char) next);
    }
    return line.toString().stripTrailing();
  }
}
