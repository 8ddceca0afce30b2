package sluice.sql;

import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.regex.Pattern;
import org.apache.hive.service.cli.CLIService;
import org.apache.hive.service.cli.HiveSQLException;
import org.apache.hive.service.cli.OperationHandle;
import org.apache.hive.service.cli.OperationState;
import org.apache.hive.service.cli.OperationStatus;
import org.apache.hive.service.cli.SessionHandle;
import org.apache.hive.service.cli.operation.Operation;
import org.apache.hive.service.rpc.thrift.TFetchResultsReq;
import org.apache.hive.service.rpc.thrift.TFetchResultsResp;
import org.apache.hive.service.rpc.thrift.TStatusCode;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.hive.thriftserver.server.SparkSQLOperationManager;

/**
 * All statements of the endpoint: how many run at the same time, for how long, how much they send, and who may see and
 * cancel them.
 */
final class Statements {
  private static final long LOG = 1;
  /** Drivers send this by themselves: whoever may run nothing more must still get in, to cancel something. */
  private static final Pattern USE = Pattern.compile("\\s*USE\\s+`?\\w{1,128}`?\\s*", Pattern.CASE_INSENSITIVE);

  private static final long OPEN_FOR_EACH = 4;
  private static final long SETTLING_SECONDS = 5;
  private static final long GRACE_NANOS = 5_000_000_000L;

  /** The statement that a call's thread is about to submit. */
  private static final ThreadLocal<Statement> SUBMITTED = new ThreadLocal<>();

  private final CLIService service;
  private final SparkContext spark;
  private final Limits limits;
  private final AtomicLong last = new AtomicLong();
  private final Map<OperationHandle, Statement> byHandle = new ConcurrentHashMap<>();
  private final ConcurrentLinkedQueue<Statement> all = new ConcurrentLinkedQueue<>();
  private final Set<Statement> line = new LinkedHashSet<>();
  private final Set<Statement> running = new LinkedHashSet<>();

  Statements(CLIService service, SparkContext spark, Limits limits) {
    this.service = service;
    this.spark = spark;
    this.limits = limits;
  }

  SparkSession sessionOf(SessionHandle handle) {
    return operations().sessionToContexts().get(handle);
  }

  private SparkSQLOperationManager operations() {
    return (SparkSQLOperationManager) service.getSessionManager().getOperationManager();
  }

  /** Every statement whose result is not closed, in the order in which they came. */
  List<Statement> all() {
    return List.copyOf(all);
  }

  synchronized List<Statement> running() {
    return List.copyOf(running);
  }

  /** Run a statement; `wait` until it is done, or only until it runs. */
  OperationHandle execute(Connection client, SessionHandle session, String given, boolean wait) throws Exception {
    String user = client.user();
    String text = Listing.rewritten(given, this, user, limits);
    boolean listing = !text.equals(given);
    if (!listing && !limits.isOwner(user)) {
      Shape.check(text, limits);
      checkOpen(user);
    }
    boolean atOnce = listing || limits.isOwner(user) || USE.matcher(text).matches();
    Statement statement = new Statement(Long.toString(last.incrementAndGet(), 36), user, text, session, atOnce);
    if (listing) {
      Listing.collectAtOnce(sessionOf(session));
    } else {
      Listing.collectAsFits(sessionOf(session), text);
      all.add(statement);
    }
    OperationHandle handle;
    try {
      enter(statement, client);
      SUBMITTED.set(statement);
      handle = service.executeStatementAsync(session, text, Map.of(), 0);
      statement.operation = operations().getOperation(handle);
      byHandle.put(handle, statement);
    } catch (Exception | Error error) {
      leave(statement);
      all.remove(statement);
      throw error;
    } finally {
      SUBMITTED.remove();
    }
    if (wait) {
      await(statement, client);
    }
    return handle;
  }

  /** A result that is not closed takes memory. */
  private void checkOpen(String user) throws Refused {
    long open = all.stream().filter(each -> each.user.equals(user)).count();
    if (open >= OPEN_FOR_EACH * limits.statementsOfUser()) {
      throw new Refused("you have " + open + " results that are not closed: close one of them, or the connection");
    }
  }

  /** Wait for the end, as long as the client does. */
  private void await(Statement statement, Connection client) throws Exception {
    Operation operation = statement.operation;
    while (!operation.getStatus().getState().isTerminal()) {
      if (!statement.done.await(500, TimeUnit.MILLISECONDS) && client.gone()) {
        stop(statement, "the client has gone");
      }
    }
    settle(statement);
    OperationState state = operation.getStatus().getState();
    if (state == OperationState.FINISHED && statement.stopped == null) {
      return;
    }
    HiveSQLException error = operation.getStatus().getOperationException();
    close(statement);
    if (statement.stopped != null || error == null) {
      throw new Refused(statement.stopped == null ? "the statement was cancelled" : statement.stopped);
    }
    throw error;
  }

  /** Wait until the statement's error can be read. */
  void settle(OperationHandle handle) throws InterruptedException {
    Statement statement = byHandle.get(handle);
    if (statement != null && statement.operation != null) {
      settle(statement);
    }
  }

  /** Spark tells that a statement failed a moment before it tells why. */
  private static void settle(Statement statement) throws InterruptedException {
    OperationStatus now = statement.operation.getStatus();
    if (now.getState() == OperationState.ERROR && now.getOperationException() == null) {
      statement.done.await(SETTLING_SECONDS, TimeUnit.SECONDS);
    }
  }

  private void close(Statement statement) throws HiveSQLException {
    OperationHandle handle = statement.handle();
    forget(handle);
    service.closeOperation(handle);
  }

  /** Some rows of a result. */
  TFetchResultsResp fetch(
      Connection client, OperationHandle handle, TFetchResultsReq request, Callable<TFetchResultsResp> call)
      throws Exception {
    Statement statement = byHandle.get(handle);
    if (statement == null || request.getFetchType() == LOG) {
      request.setMaxRows(Math.max(1, Math.min(request.getMaxRows(), 1_000)));
      return call.call();
    }
    request.setMaxRows(statement.rowsNow(request.getMaxRows()));
    TFetchResultsResp answer;
    try {
      enter(statement, client);
      statement.fetching = true;
      statement.begin(Thread.currentThread());
      answer = call.call();
    } catch (ThreadDeath stopped) {
      throw new Refused(statement.stopped);
    } finally {
      leave(statement);
      Thread.interrupted();
    }
    if (statement.stopped == null && !limits.isOwner(statement.user)) {
      statement.stopped = statement.sent(answer.getResults(), limits);
    }
    if (statement.stopped != null) {
      throw new Refused(statement.stopped);
    }
    TStatusCode code = answer.getStatus().getStatusCode();
    if (code == TStatusCode.ERROR_STATUS) {
      answer.getStatus().unsetInfoMessages();
      answer.getStatus().setErrorMessage(Statement.plain(answer.getStatus().getErrorMessage()));
    }
    return answer;
  }

  /** Wait until another statement may be worked for. */
  private void enter(Statement statement, Connection client) throws Exception {
    long until = System.nanoTime() + TimeUnit.SECONDS.toNanos(limits.waitSeconds());
    try {
      while (true) {
        synchronized (this) {
          line.add(statement);
          if (statement.atOnce || isNext(statement)) {
            running.add(statement);
            return;
          }
          wait(250);
        }
        if (statement.stopped != null || client.gone()) {
          throw new Refused(statement.stopped == null ? "the client has gone" : statement.stopped);
        }
        if (System.nanoTime() - until > 0) {
          throw new Refused(
              "other statements have run for " + limits.waitSeconds() + " s, and " + limits.statementsOfUser()
                  + " of a user and " + limits.statements() + " in all run at the same time (sql.statements_of_user, "
                  + "sql.statements): SHOW STATEMENTS lists yours, CANCEL STATEMENT 'ID' ends one");
        }
      }
    } finally {
      synchronized (this) {
        line.remove(statement);
      }
    }
  }

  /** The first in line of those whose user may have one more. */
  private boolean isNext(Statement statement) {
    long others = running.stream().filter(each -> !each.atOnce).count();
    if (others >= limits.statements()) {
      return false;
    }
    for (Statement each : line) {
      long own = running.stream().filter(other -> !other.atOnce && other.user.equals(each.user)).count();
      if (own < limits.statementsOfUser()) {
        return each == statement;
      }
    }
    return false;
  }

  private synchronized void leave(Statement statement) {
    statement.pause();
    running.remove(statement);
    notifyAll();
  }

  /** What the pool does for the statement that this call submits; for none it is the work alone. */
  FutureTask<Void> submitted(Runnable work) {
    Statement statement = SUBMITTED.get();
    if (statement == null) {
      return new FutureTask<>(work, null);
    }
    Runnable noted =
        () -> {
          statement.begin(Thread.currentThread());
          try {
            work.run();
          } finally {
            end(statement);
          }
        };
    return new FutureTask<>(noted, null) {
      @Override
      protected void done() {
        if (isCancelled() && statement.thread == null) {
          end(statement); // It was cancelled before it began.
        }
      }
    };
  }

  private void end(Statement statement) {
    leave(statement);
    statement.done.countDown();
  }

  /** Why the endpoint stopped the statement, or null. */
  String stopped(OperationHandle handle) {
    Statement statement = byHandle.get(handle);
    return statement == null ? null : statement.stopped;
  }

  void forget(OperationHandle handle) {
    Statement statement = byHandle.remove(handle);
    if (statement != null) {
      all.remove(statement);
    }
  }

  void forget(SessionHandle session) {
    for (Statement each : all()) {
      if (each.session.equals(session)) {
        stop(each, "its session was closed");
        all.remove(each);
        if (each.operation != null) {
          byHandle.remove(each.handle());
        }
      }
    }
  }

  /** End a statement; whoever waits for it is told why. */
  void stop(Statement statement, String why) {
    synchronized (statement) {
      if (statement.stopped != null) {
        return;
      }
      statement.stoppedAt = System.nanoTime();
      statement.stopped = why;
    }
    halt(statement);
  }

  /** Stop the statement that these jobs of Spark's are of. */
  void outOfMemory(String group) {
    running().stream()
        .filter(each -> group.equals(each.group()))
        .forEach(each -> stop(each, Statement.plain(Processes.OUT_OF_MEMORY)));
  }

  private void halt(Statement statement) {
    try {
      if (statement.operation != null) {
        service.cancelOperation(statement.handle());
      }
    } catch (HiveSQLException closed) {
      // It is closed.
    }
    if (statement.thread != null && statement.group() != null) {
      spark.cancelJobGroup(statement.group());
    }
  }

  /** Stop what has run too long; a thread that does not heed it is ended. */
  void tick() {
    for (Statement each : running()) {
      boolean late = each.nanos() > TimeUnit.SECONDS.toNanos(limits.statementSeconds());
      if (late && !limits.isOwner(each.user)) {
        stop(
            each,
            "the statement took longer than " + limits.statementSeconds()
                + " s (sql.statement_seconds): narrow it with WHERE, or name the partitions");
      }
      if (each.stopped != null && each.thread != null) {
        halt(each);
        if (each.heeds && System.nanoTime() - each.stoppedAt > GRACE_NANOS) {
          each.heeds = false;
          Threads.end(each.thread);
        }
      }
    }
  }
}
