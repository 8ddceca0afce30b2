package sluice.sql;

import java.io.BufferedInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.Socket;
import java.net.SocketTimeoutException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import javax.net.ssl.SSLSocket;
import javax.security.sasl.AuthenticationException;
import org.apache.hive.service.cli.OperationHandle;
import org.apache.hive.service.cli.SessionHandle;
import org.apache.hive.service.cli.session.SessionManager;
import org.apache.hive.service.rpc.thrift.TCLIService;
import org.apache.thrift.TException;
import org.apache.thrift.protocol.TBinaryProtocol;

/**
 * One client: it logs in (SASL PLAIN, as Hive's drivers speak it), then its calls are answered one after another.
 *
 * <p>Before the log-in a stranger's numbers decide nothing: each message has a few KiB at most. With TLS the
 * handshake is a part of the log-in: it has the same place and the same seconds.
 */
final class Connection implements Runnable {
  private static final int START = 1;
  private static final int OK = 2;
  private static final int BAD = 3;
  private static final int COMPLETE = 5;
  private static final String MECHANISM = "PLAIN";
  private static final int MECHANISM_BYTES = 64;
  private static final int LOGIN_BYTES = 4096;
  private static final int LIST_LENGTH = 10_000;

  /** What the client came by; closing it ends whatever is done on it, a handshake, too. */
  private final Socket raw;

  private final Tls tls;

  /** The same, or TLS over it. */
  private Socket socket;

  final Set<SessionHandle> sessions = ConcurrentHashMap.newKeySet();
  final Queue<OperationHandle> lists = new ArrayDeque<>();
  private final Door door;
  private final Limits limits;
  private volatile long deadline;
  private volatile boolean said;
  private String user;
  private String generation;
  private BufferedInputStream input;

  /** tls: null without. */
  Connection(Door door, Socket raw, Tls tls, Limits limits) {
    this.door = door;
    this.raw = raw;
    this.tls = tls;
    this.socket = raw;
    this.limits = limits;
    within(limits.loginSeconds());
  }

  /** Who logged in; null before. */
  String user() {
    return user;
  }

  /** Whether the user still is who logged in: not removed, and with the same password and role. */
  boolean holds() {
    return !generation.isEmpty() && generation.equals(Passwords.generationOf(user));
  }

  String source() {
    return raw.getInetAddress().getHostAddress();
  }

  /** Whether the client has said who it is, so that its log-in waits for the endpoint. */
  boolean said() {
    return said;
  }

  /** Set the time within which the present work must end, or the connection is closed; 0: no limit. */
  void within(int seconds) {
    deadline = seconds == 0 ? Long.MAX_VALUE : System.nanoTime() + seconds * 1_000_000_000L;
  }

  boolean late() {
    return deadline != Long.MAX_VALUE && System.nanoTime() - deadline > 0;
  }

  void close() {
    try {
      raw.close();
    } catch (IOException already) {
      // It is closed.
    }
  }

  boolean closed() {
    return raw.isClosed();
  }

  /** Whether the client has gone while its call is answered. */
  boolean gone() {
    try {
      socket.setSoTimeout(1);
      input.mark(1);
      if (input.read() < 0) {
        return true;
      }
      input.reset();
      return false;
    } catch (SocketTimeoutException silent) {
      return false;
    } catch (IOException broken) {
      return true;
    } finally {
      try {
        socket.setSoTimeout(0);
      } catch (IOException broken) {
        // Found at the next read.
      }
    }
  }

  @Override
  public void run() {
    try {
      raw.setTcpNoDelay(true);
      raw.setKeepAlive(true);
      if (tls != null) {
        SSLSocket secured = tls.over(raw);
        secured.startHandshake();
        socket = secured;
      }
      input = new BufferedInputStream(socket.getInputStream());
      if (logIn()) {
        answer();
      }
    } catch (IOException | TException ended) {
      // The client has gone, or what it sends is no call.
    } finally {
      close();
      door.left(this);
    }
  }

  private boolean logIn() throws IOException {
    try {
      String mechanism = new String(message(START, START, MECHANISM_BYTES), StandardCharsets.UTF_8);
      if (!mechanism.equals(MECHANISM)) {
        throw new AuthenticationException("log in with a user and a password (SASL " + MECHANISM + ")");
      }
      // Identity to act as, user, password.
      String[] login = new String(message(OK, COMPLETE, LOGIN_BYTES), StandardCharsets.UTF_8).split("\0", -1);
      if (login.length != 3 || !(login[0].isEmpty() || login[0].equals(login[1]))) {
        throw new AuthenticationException("nobody may act as another user: give a user and a password");
      }
      said = true;
      within(0);
      generation = Passwords.generationOf(login[1]); // before the password, in case both change meanwhile
      SessionManager.setIpAddress(source());
      new Passwords().Authenticate(login[1], login[2]);
      door.enter(this, login[1]);
      user = login[1];
    } catch (AuthenticationException refused) {
      within(limits.loginSeconds());
      send(BAD, refused.getMessage());
      return false;
    } finally {
      SessionManager.clearIpAddress();
    }
    send(COMPLETE, "");
    return true;
  }

  private byte[] message(int status, int orStatus, int bytes) throws IOException, AuthenticationException {
    int given = input.read();
    if (given < 0) {
      throw new IOException("the client has gone");
    }
    int length = length(input);
    if ((given != status && given != orStatus) || length < 0 || length > bytes) {
      throw new AuthenticationException("log in first, in at most " + bytes + " bytes");
    }
    byte[] read = input.readNBytes(length);
    if (read.length < length) {
      throw new IOException("the client has gone");
    }
    return read;
  }

  private static int length(InputStream input) throws IOException {
    byte[] four = input.readNBytes(4);
    if (four.length < 4) {
      throw new IOException("the client has gone");
    }
    return (four[0] & 255) << 24 | (four[1] & 255) << 16 | (four[2] & 255) << 8 | four[3] & 255;
  }

  private void send(int status, String text) throws IOException {
    byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
    byte[] sent = new byte[5 + bytes.length];
    sent[0] = (byte) status;
    sent[3] = (byte) (bytes.length >> 8);
    sent[4] = (byte) bytes.length;
    System.arraycopy(bytes, 0, sent, 5, bytes.length);
    socket.getOutputStream().write(sent);
    socket.getOutputStream().flush();
  }

  private void answer() throws IOException, TException {
    Frames frames = new Frames(this, input, socket.getOutputStream(), limits.requestBytes());
    TCLIService.Processor<TCLIService.Iface> processor = new TCLIService.Processor<>(door.calls(this));
    TBinaryProtocol asked = new TBinaryProtocol(frames, limits.requestBytes(), LIST_LENGTH, true, true);
    TBinaryProtocol answered = new TBinaryProtocol(frames, true, true);
    while (true) {
      processor.process(asked, answered);
    }
  }
}
