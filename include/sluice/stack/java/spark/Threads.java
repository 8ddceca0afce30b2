package sluice.sql;

/** Ends threads that do not heed an interruption: planning a statement may compute without looking at it. */
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
}
