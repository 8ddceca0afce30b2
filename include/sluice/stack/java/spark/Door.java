package sluice.sql;

import java.io.IOException;
import java.lang.reflect.Proxy;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.HashSet;
import java.util.Iterator;
import java.util.Set;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import javax.security.sasl.AuthenticationException;
import org.apache.hive.service.ServiceException;
import org.apache.hive.service.cli.CLIService;
import org.apache.hive.service.cli.HiveSQLException;
import org.apache.hive.service.cli.SessionHandle;
import org.apache.hive.service.cli.thrift.ThriftBinaryCLIService;
import org.apache.hive.service.rpc.thrift.TCLIService;

/**
 * Where clients come in: it takes the place of Hive's Thrift server.
 *
 * <p>Of the connections that have not logged in there are few, and each for a few seconds; the one that has been silent
 * longest makes room for the next. So however many come and say nothing, the endpoint stays open.
 */
final class Door extends ThriftBinaryCLIService {
  private final CLIService service;
  private final Limits limits;
  private final Statements statements;
  private final Tls tls = Tls.ofProcess();
  private final ExecutorService threads =
      Executors.newCachedThreadPool(
          task -> {
            Thread thread = new Thread(task, "sql-connection");
            thread.setDaemon(true);
            return thread;
          });

  private final Deque<Connection> waiting = new ArrayDeque<>();
  private final Set<Connection> inside = new HashSet<>();
  private ServerSocket socket;

  Door(CLIService service, Limits limits, Statements statements) {
    super(service);
    this.service = service;
    this.limits = limits;
    this.statements = statements;
  }

  @Override
  protected void initializeServer() {
    try {
      if (tls != null) {
        tls.prepare();
      }
      socket = new ServerSocket();
      socket.setReuseAddress(true);
      socket.bind(new InetSocketAddress(InetAddress.getByName(hiveHost), portNum), limits.logins());
      portNum = socket.getLocalPort();
    } catch (IOException error) {
      throw new ServiceException("the SQL endpoint cannot listen at " + hiveHost + ":" + portNum, error);
    }
  }

  @Override
  protected void stopServer() {
    try {
      socket.close();
    } catch (IOException already) {
      // It is closed.
    }
  }

  @Override
  public void run() {
    while (!socket.isClosed()) {
      try {
        admit(new Connection(this, socket.accept(), tls, limits));
      } catch (IOException | OutOfMemoryError error) {
        // No file or no thread is free, or the endpoint stops: those who are inside make room.
        pause();
      }
    }
  }

  private static void pause() {
    try {
      Thread.sleep(100);
    } catch (InterruptedException stopped) {
      Thread.currentThread().interrupt();
    }
  }

  private void admit(Connection connection) {
    synchronized (this) {
      if (waiting.size() >= limits.logins() && !makeRoom()) {
        connection.close();
        return;
      }
      waiting.add(connection);
    }
    try {
      threads.execute(connection);
    } catch (OutOfMemoryError noThread) {
      connection.close();
      left(connection);
      throw noThread;
    }
  }

  /** Close the connection that has waited longest of those that have not yet said who they are. */
  private boolean makeRoom() {
    for (Iterator<Connection> each = waiting.iterator(); each.hasNext(); ) {
      Connection oldest = each.next();
      if (!oldest.said()) {
        each.remove();
        oldest.close();
        return true;
      }
    }
    return false;
  }

  /** Close the connections that take longer than they may. */
  void closeLate() {
    Set<Connection> all;
    synchronized (this) {
      all = new HashSet<>(waiting);
      all.addAll(inside);
    }
    all.stream().filter(Connection::late).forEach(Connection::close);
  }

  /** The user's password was right. */
  synchronized void enter(Connection connection, String user) throws AuthenticationException {
    if (!limits.isOwner(user)) {
      long own = inside.stream().filter(each -> user.equals(each.user())).count();
      if (own >= limits.connectionsOfUser()) {
        throw new AuthenticationException(
            "you have " + own + " connections (sql.connections_of_user): close one of them");
      }
      if (inside.size() >= limits.connections()) {
        throw new AuthenticationException(
            "there are " + inside.size() + " connections (sql.connections): try again later");
      }
    }
    waiting.remove(connection);
    inside.add(connection);
  }

  /** The connection has ended: so do its sessions, and what runs in them. */
  void left(Connection connection) {
    synchronized (this) {
      waiting.remove(connection);
      inside.remove(connection);
    }
    for (SessionHandle session : connection.sessions) {
      try {
        statements.forget(session);
        service.closeSession(session);
      } catch (HiveSQLException closed) {
        // It is closed.
      }
    }
  }

  /** The calls that this client may make. */
  TCLIService.Iface calls(Connection connection) {
    return (TCLIService.Iface)
        Proxy.newProxyInstance(
            Door.class.getClassLoader(),
            new Class<?>[] {TCLIService.Iface.class},
            new Calls(connection, this, service, limits, statements));
  }
}
