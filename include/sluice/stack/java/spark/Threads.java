package sluice.sql;

import java.util.Set;

/** Finds and interrupts threads. */
final class Threads {
  private Threads() {}

  /** Only asked to end: to end a thread by force corrupts what native code holds, and so the whole process. */
  static void end(Thread thread) {
    thread.interrupt();
  }

  /** The thread that runs this task of Spark's; null if none does. */
  static Thread ofTask(long task) {
    String mark = "(TID " + task + ")";
    Set<Thread> all = Thread.getAllStackTraces().keySet();
    return all.stream().filter(each -> each.getName().endsWith(mark)).findAny().orElse(null);
  }
}
