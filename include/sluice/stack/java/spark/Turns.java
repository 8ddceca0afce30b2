package sluice.sql;

import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;

/** Lets few compute a hash at a time, one of each source, and few wait: strangers leave some places to the others. */
final class Turns {
  private static final int RUNNING = 2;
  private static final int WAITING = 24;
  private static final int EACH = 8;

  private final Set<String> running = new HashSet<>();
  private final Map<String, Integer> queued = new HashMap<>();
  private int all;

  /** Waits for one's turn, which ends with {@link #end}; false if too many wait already. */
  synchronized boolean begin(String source, boolean known) throws InterruptedException {
    if (all >= (known ? WAITING : WAITING * 2 / 3) || queued.getOrDefault(source, 0) >= EACH) {
      return false;
    }
    all++;
    queued.merge(source, 1, Integer::sum);
    try {
      while (running.size() >= RUNNING || running.contains(source)) {
        wait();
      }
    } catch (InterruptedException stopped) {
      leave(source);
      throw stopped;
    }
    running.add(source);
    return true;
  }

  synchronized void end(String source) {
    running.remove(source);
    leave(source);
    notifyAll();
  }

  private void leave(String source) {
    all--;
    queued.computeIfPresent(source, (each, count) -> count == 1 ? null : count - 1);
  }
}
