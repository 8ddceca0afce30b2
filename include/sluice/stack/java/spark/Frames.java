package sluice.sql;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import org.apache.thrift.TConfiguration;
import org.apache.thrift.transport.TEndpointTransport;
import org.apache.thrift.transport.TTransportException;

/** Messages with their length before them, each of a bounded size and in a bounded time. */
final class Frames extends TEndpointTransport {
  /** From the first byte of a message to its last, in either direction. */
  private static final int MESSAGE_SECONDS = 60;

  private final Connection connection;
  private final InputStream input;
  private final OutputStream output;
  private final int most;
  private ByteArrayOutputStream written = new ByteArrayOutputStream();
  private byte[] read = {};
  private int at;

  Frames(Connection connection, InputStream input, OutputStream output, int most) throws TTransportException {
    super(new TConfiguration(most, most, TConfiguration.DEFAULT_RECURSION_DEPTH));
    this.connection = connection;
    this.input = input;
    this.output = output;
    this.most = most;
  }

  @Override
  public int read(byte[] into, int begin, int count) throws TTransportException {
    try {
      while (at == read.length) {
        at = 0;
        read = next();
      }
    } catch (IOException broken) {
      throw new TTransportException(TTransportException.END_OF_FILE, broken);
    }
    int found = Math.min(count, read.length - at);
    System.arraycopy(read, at, into, begin, found);
    at += found;
    return found;
  }

  /** The memory grows with what has come, not with what the length promises. */
  private byte[] next() throws IOException {
    int first = input.read();
    if (first < 0) {
      throw new IOException("the client has gone");
    }
    connection.within(MESSAGE_SECONDS);
    byte[] rest = input.readNBytes(3);
    int length = rest.length < 3 ? -1 : first << 24 | (rest[0] & 255) << 16 | (rest[1] & 255) << 8 | rest[2] & 255;
    if (length < 0 || length > most) {
      throw new IOException("a request of " + length + " bytes; " + most + " are allowed (sql.request_bytes)");
    }
    byte[] found = input.readNBytes(length);
    if (found.length < length) {
      throw new IOException("the client has gone");
    }
    connection.within(0);
    return found;
  }

  @Override
  public void write(byte[] from, int begin, int count) {
    written.write(from, begin, count);
  }

  @Override
  public void flush() throws TTransportException {
    byte[] length = new byte[4];
    for (int n = 0; n < 4; n++) {
      length[n] = (byte) (written.size() >> 8 * (3 - n));
    }
    connection.within(MESSAGE_SECONDS);
    try {
      output.write(length);
      written.writeTo(output);
      output.flush();
    } catch (IOException broken) {
      throw new TTransportException(TTransportException.END_OF_FILE, broken);
    } finally {
      // A large answer's memory is not kept for the next.
      written = new ByteArrayOutputStream();
    }
    connection.within(0);
  }

  @Override
  public boolean isOpen() {
    return !connection.closed();
  }

  @Override
  public void open() {}

  @Override
  public void close() {
    connection.close();
  }
}
