package sluice.sql;

import java.util.Set;

/** Ends threads that do not heed an interruption: an expression may compute for ever without looking at it. */
final class Threads {
  private Threads() {}

  /** A thread ended so leaves its locks; where Java no longer has this, it goes on until its work is done. */
  @SuppressWarnings({"deprecation", "removal"})
  static void end(Thread thread) {
    try {
      thread.stop();
    } catch (UnsupportedOperationException newerJava) {
      thread.interrupt();
    }
  }

  /** The thread that runs this task of Spark's; null if none does. */
  static Thread ofTask(long task) {
    String mark = "(TID " + task + ")";
    Set<Thread> all = Thread.getAllStackTraces().keySet();
    return all.stream().filter(each -> each.getName().endsWith(mark)).findAny().orElse(null);
  }
}
