package sluice.sql;

import com.sun.management.ThreadMXBean;
import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;
import java.lang.management.MemoryPoolMXBean;
import java.lang.management.MemoryType;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * Keeps the endpoint's own heap from filling, where statements are planned and results pass: once little is free after a
 * collection of garbage, the statement that allocated most is stopped. What fails for lack of memory all the same fails
 * alone, unless it is a part of the endpoint itself: then the process ends, and its supervisor starts it again.
 */
final class Memory {
  private static final double FULL = 0.75;
  private static final long PATIENCE_NANOS = 10_000_000_000L;
  private static final int BROKEN = 52;
  /** Threads that work for one client or one statement. */
  private static final Set<String> REPLACEABLE = Set.of("sql-connection", "sql-statement");

  private final Statements statements;
  private final MemoryPoolMXBean old;
  private final ThreadMXBean threads = (ThreadMXBean) ManagementFactory.getThreadMXBean();
  private Map<Long, Long> before = new HashMap<>();
  private final long much;
  private long collectionsSeen;
  private Statement stopped;
  private long patience;

  Memory(Statements statements) {
    this.statements = statements;
    old =
        ManagementFactory.getMemoryPoolMXBeans().stream()
            .filter(each -> each.getType() == MemoryType.HEAP && each.isCollectionUsageThresholdSupported())
            .max(Comparator.comparingLong(each -> each.getUsage().getMax()))
            .orElseThrow();
    much = old.getUsage().getMax() / 4;
    old.setCollectionUsageThreshold((long) (FULL * old.getUsage().getMax()));
    Thread.setDefaultUncaughtExceptionHandler((thread, error) -> endIfBroken(thread, error));
  }

  private static void endIfBroken(Thread thread, Throwable error) {
    boolean replaceable = REPLACEABLE.stream().anyMatch(thread.getName()::startsWith);
    if (error instanceof OutOfMemoryError && !replaceable) {
      Runtime.getRuntime().halt(BROKEN);
    }
    if (!(error instanceof ThreadDeath)) {
      System.err.println(thread.getName() + ": " + error);
    }
  }

  void tick() {
    Map<Long, Long> now = new HashMap<>();
    for (Statement each : statements.running()) {
      Thread working = each.thread;
      if (working != null) {
        long allocated = threads.getThreadAllocatedBytes(working.getId());
        each.allocated += Math.max(0, allocated - before.getOrDefault(working.getId(), allocated));
        now.put(working.getId(), allocated);
      }
    }
    before = now;
    // The threshold is of the last collection: it says nothing of what was stopped since.
    long collections = collections();
    if (stillHolds(stopped)) {
      collectionsSeen = collections;
    }
    if (!old.isCollectionUsageThresholdExceeded() || collections == collectionsSeen) {
      return;
    }
    collectionsSeen = collections;
    statements.running().stream()
        .filter(each -> each.stopped == null && each.allocated > much)
        .max(Comparator.comparingLong(each -> each.allocated))
        .ifPresent(this::stop);
  }

  private void stop(Statement statement) {
    stopped = statement;
    patience = System.nanoTime() + PATIENCE_NANOS;
    statements.stop(statement, Statement.plain(Processes.OUT_OF_MEMORY));
  }

  /** Whether what was stopped last has not ended, so that its memory cannot be collected yet. */
  private boolean stillHolds(Statement statement) {
    return statement != null && System.nanoTime() - patience < 0 && statement.thread != null;
  }

  private long collections() {
    return ManagementFactory.getGarbageCollectorMXBeans().stream()
        .filter(each -> List.of(each.getMemoryPoolNames()).contains(old.getName()))
        .mapToLong(GarbageCollectorMXBean::getCollectionCount)
        .sum();
  }
}
