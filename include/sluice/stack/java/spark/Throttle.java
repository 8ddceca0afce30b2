package sluice.sql;

import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.function.LongSupplier;

/**
 * Limits guesses of passwords as {@code sluice.runtime.throttle} does for Airflow: by who guesses (the source), by
 * whose password it is (the name), and both. A source that once logged in with a name is limited only by its own
 * failures with it, so nobody else can keep it out.
 *
 * <p>An attempt counts before its password is checked: many at once are no way around the limits.
 */
final class Throttle {
  private static final int TRIES = 5;
  private static final long PAUSE_MILLIS = 60_000;
  private static final double BURST = 20;
  private static final double PER_MILLI = 10 / 60_000.0;
  private static final int REMEMBERED = 10_000;

  private final LongSupplier clock;
  private final Map<Pair, Failures> failed = new Newest<>();
  private final Set<Pair> known = Collections.newSetFromMap(new Newest<>());
  private final Map<String, Budget> ofSource = new Newest<>();
  private final Map<String, Budget> ofName = new Newest<>();

  private record Pair(String source, String name) {}

  private record Failures(int count, long last) {}

  private record Budget(double left, long at) {}

  /** Forgets what was put in longest ago when there is too much. */
  private static final class Newest<K, V> extends LinkedHashMap<K, V> {
    @Override
    protected boolean removeEldestEntry(Map.Entry<K, V> eldest) {
      return size() > REMEMBERED;
    }
  }

  /** clock: milliseconds that never go back. */
  Throttle(LongSupplier clock) {
    this.clock = clock;
  }

  /** Whether this source has logged in with this name. */
  synchronized boolean knows(String source, String name) {
    return known.contains(new Pair(source, name));
  }

  /** Counts an attempt, which fails unless {@link #passed} follows; else the milliseconds until it may be made. */
  synchronized long take(String source, String name) {
    long wait = wait(source, name);
    if (wait > 0) {
      return wait;
    }
    Pair pair = new Pair(source, name);
    Failures before = failed.remove(pair);
    failed.put(pair, new Failures(before == null ? 1 : before.count() + 1, clock.getAsLong()));
    if (!known.contains(pair)) {
      change(ofSource, source, -1);
      change(ofName, name, -1);
    }
    return 0;
  }

  /** The attempt's password was right. */
  synchronized void passed(String source, String name) {
    Pair pair = new Pair(source, name);
    failed.remove(pair);
    if (!known.remove(pair)) {
      change(ofSource, source, 1);
      change(ofName, name, 1);
    }
    known.add(pair);
  }

  /** For how many milliseconds the source may not try this name; 0 if it may. */
  synchronized long wait(String source, String name) {
    Pair pair = new Pair(source, name);
    Failures before = failed.getOrDefault(pair, new Failures(0, 0));
    long wait = before.count() >= TRIES ? before.last() + PAUSE_MILLIS - clock.getAsLong() : 0;
    if (!known.contains(pair)) {
      wait = Math.max(wait, Math.max(missing(ofSource, source), missing(ofName, name)));
    }
    return Math.max(0, wait);
  }

  private double left(Map<String, Budget> budgets, String key) {
    Budget budget = budgets.get(key);
    return budget == null ? BURST : Math.min(BURST, budget.left() + (clock.getAsLong() - budget.at()) * PER_MILLI);
  }

  private long missing(Map<String, Budget> budgets, String key) {
    double left = left(budgets, key);
    return left >= 1 ? 0 : (long) Math.ceil((1 - left) / PER_MILLI);
  }

  private void change(Map<String, Budget> budgets, String key, int by) {
    double left = Math.min(BURST, left(budgets, key) + by);
    budgets.remove(key);
    budgets.put(key, new Budget(left, clock.getAsLong()));
  }
}
