package sluice.sql;

import com.sun.management.ThreadMXBean;
import java.lang.management.ManagementFactory;
import java.lang.management.MemoryPoolMXBean;
import java.lang.management.MemoryType;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;

/**
 * Keeps the heap from filling: when much of it is used, and most of that is no garbage, the statement that allocated
 * most is stopped. What fails for lack of memory all the same fails alone, unless it is a part of the endpoint itself: then the
 * process ends, and its supervisor starts it again.
 */
final class Memory {
  private static final double FULL = 0.75;
  private static final double HELD = 0.6;
  private static final long PATIENCE_NANOS = 1_000_000_000L;
  private static final long STOPPED_NANOS = 10_000_000_000L;
  private static final int BROKEN = 52;
  /** Threads that work for one client or one statement. */
  private static final Set<String> REPLACEABLE = Set.of("sql-connection", "sql-statement", "Executor task");

  private final Statements statements;
  private final Shares shares;
  private final MemoryPoolMXBean old;
  private final ThreadMXBean threads = (ThreadMXBean) ManagementFactory.getThreadMXBean();
  private Map<Long, Long> before = new HashMap<>();
  private final long much;
  private long looked;
  private Statement stopped;

  Memory(Statements statements, Shares shares) {
    this.statements = statements;
    this.shares = shares;
    old =
        ManagementFactory.getMemoryPoolMXBeans().stream()
            .filter(each -> each.getType() == MemoryType.HEAP)
            .max(Comparator.comparingLong(each -> each.getUsage().getMax()))
            .orElseThrow();
    much = old.getUsage().getMax() / 4;
    Thread.setDefaultUncaughtExceptionHandler((thread, error) -> endIfBroken(thread, error));
  }

  private static void endIfBroken(Thread thread, Throwable error) {
    boolean replaceable = REPLACEABLE.stream().anyMatch(thread.getName()::startsWith);
    if (error instanceof OutOfMemoryError && !replaceable) {
      Runtime.getRuntime().halt(BROKEN);
    }
    System.err.println(thread.getName() + ": " + error);
  }

  void tick() {
    Map<Long, Long> now = new HashMap<>();
    for (Statement each : statements.running()) {
      each.allocated += allocatedBy(each, now);
    }
    before = now;
    long time = System.nanoTime();
    boolean asked = time - looked < PATIENCE_NANOS || (stillHolds(stopped) && time - looked < STOPPED_NANOS);
    if (asked || used() < FULL) {
      return;
    }
    // What is garbage is not held by anybody; without this it would be known only when the heap is full.
    System.gc();
    looked = System.nanoTime();
    if (used() > HELD) {
      statements.running().stream()
          .filter(each -> each.stopped == null && each.allocated > much)
          .max(Comparator.comparingLong(each -> each.allocated))
          .ifPresent(this::stop);
    }
  }

  private double used() {
    return (double) old.getUsage().getUsed() / old.getUsage().getMax();
  }

  private void stop(Statement statement) {
    stopped = statement;
    statements.stop(statement, Statement.plain("OutOfMemoryError"));
  }

  /** Whether what was stopped last has not ended, so that its memory cannot be collected yet. */
  private boolean stillHolds(Statement statement) {
    return statement != null
        && (statement.thread != null || (statement.group() != null && !shares.tasksOf(statement.group()).isEmpty()));
  }

  private long allocatedBy(Statement statement, Map<Long, Long> now) {
    Set<Thread> working = new HashSet<>();
    working.add(statement.thread);
    if (statement.group() != null) {
      shares.tasksOf(statement.group()).forEach(each -> working.add(Threads.ofTask(each)));
    }
    working.remove(null);
    long sum = 0;
    for (Thread each : working) {
      long allocated = threads.getThreadAllocatedBytes(each.getId());
      now.put(each.getId(), allocated);
      sum += Math.max(0, allocated - before.getOrDefault(each.getId(), allocated));
    }
    return sum;
  }
}
