package sluice.sql;

/** The threads of Spark's tasks. */
final class Threads {
  private Threads() {}

  /** The thread that runs this task of Spark's; null if none does. */
  static Thread ofTask(long task) {
    String mark = "(TID " + task + ")";
    return Thread.getAllStackTraces().keySet().stream()
        .filter(each -> each.getName().endsWith(mark))
        .findAny()
        .orElse(null);
  }
}
