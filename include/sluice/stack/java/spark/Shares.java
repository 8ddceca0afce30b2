package sluice.sql;

import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.function.Consumer;
import org.apache.spark.ExecutorLostFailure;
import org.apache.spark.SparkContext;
import org.apache.spark.Success$;
import org.apache.spark.TaskEndReason;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerStageCompleted;
import org.apache.spark.scheduler.SparkListenerStageSubmitted;
import org.apache.spark.scheduler.SparkListenerTaskEnd;
import org.apache.spark.scheduler.SparkListenerTaskStart;

/**
 * A fair share of the processors for each user: Spark's fair pools share out tasks that begin, but a task that has begun
 * holds its processor to its end. Here a user who has none for a moment is given one: the youngest task of whoever has
 * most is ended, and begins again later. A task that does not heed this for some
 * seconds is ended together with its process.
 */
final class Shares extends SparkListener {
  private static final long PATIENCE_NANOS = 200_000_000L;
  private static final long FIRST_TURN_NANOS = 2_000_000_000L;
  private static final long JUST_BEGUN_NANOS = 1_000_000_000L;
  private static final long GRACE_NANOS = 2_000_000_000L;
  private static final int LONGEST_TURN = 7;

  private record Stage(String pool, String group, int tasks, int[] begun) {}

  private static final class Task {
    final long id;
    final int stage;
    final String pool;
    final String group;
    final String executor;
    final long began = System.nanoTime();
    long ended;

    Task(long id, int stage, String pool, String group, String executor) {
      this.id = id;
      this.stage = stage;
      this.pool = pool;
      this.group = group;
      this.executor = executor;
    }
  }

  private final SparkContext spark;
  private final Consumer<String> outOfMemory;
  private final Map<Integer, Stage> stages = new HashMap<>();
  private final Map<Long, Task> tasks = new HashMap<>();
  private final Map<String, Long> starving = new HashMap<>();

  /** How often a statement gave a processor away: each time its next turn is twice as long. */
  private final Map<String, Integer> given = new HashMap<>();

  /** `outOfMemory` is told the group of jobs that filled an executor's memory. */
  Shares(SparkContext spark, Consumer<String> outOfMemory) {
    this.spark = spark;
    this.outOfMemory = outOfMemory;
  }

  @Override
  public synchronized void onStageSubmitted(SparkListenerStageSubmitted event) {
    Properties properties = event.properties() == null ? new Properties() : event.properties();
    String pool = properties.getProperty("spark.scheduler.pool", "default");
    String group = properties.getProperty("spark.jobGroup.id", pool);
    int count = event.stageInfo().numTasks();
    stages.put(event.stageInfo().stageId(), new Stage(pool, group, count, new int[1]));
  }

  @Override
  public synchronized void onStageCompleted(SparkListenerStageCompleted event) {
    int stage = event.stageInfo().stageId();
    stages.remove(stage);
    // A task that still runs was told to end.
    tasks.values().stream()
        .filter(each -> each.stage == stage && each.ended == 0)
        .forEach(each -> each.ended = System.nanoTime());
  }

  @Override
  public synchronized void onTaskStart(SparkListenerTaskStart event) {
    Stage stage = stages.get(event.stageId());
    if (stage != null) {
      stage.begun()[0]++;
      long id = event.taskInfo().taskId();
      String executor = event.taskInfo().executorId();
      tasks.put(id, new Task(id, event.stageId(), stage.pool(), stage.group(), executor));
    }
  }

  @Override
  public synchronized void onTaskEnd(SparkListenerTaskEnd event) {
    Task task = tasks.remove(event.taskInfo().taskId());
    if (task != null && filledItsExecutor(task, event.reason())) {
      outOfMemory.accept(task.group);
    }
    Stage stage = stages.get(event.stageId());
    if (stage != null && event.reason() != Success$.MODULE$) {
      stage.begun()[0]--;
    }
  }

  /** Spark begins such a task again, and it would end one executor after the other. */
  private static boolean filledItsExecutor(Task task, TaskEndReason reason) {
    return reason instanceof ExecutorLostFailure lost
        && lost.reason().exists(why -> why.contains(Processes.OUT_OF_MEMORY))
        && System.nanoTime() - task.began > JUST_BEGUN_NANOS;
  }

  synchronized void tick() {
    long now = System.nanoTime();
    tasks.values().stream().filter(each -> each.ended != 0 && now - each.ended > GRACE_NANOS).forEach(this::end);
    Set<String> active = new HashSet<>();
    Set<String> pending = new HashSet<>();
    for (Stage each : stages.values()) {
      if (each.begun()[0] < each.tasks()) {
        pending.add(each.pool());
      }
    }
    tasks.values().forEach(each -> active.add(each.pool));
    active.addAll(pending);
    int processors = spark.defaultParallelism();
    int share = Math.max(1, processors / Math.max(1, active.size()));
    starving.keySet().retainAll(pending);
    given.keySet().retainAll(Set.copyOf(stages.values().stream().map(Stage::group).toList()));
    for (String pool : pending) {
      if (count(pool) >= share) {
        starving.remove(pool);
      } else if (now - starving.computeIfAbsent(pool, hungry -> now) > PATIENCE_NANOS && tasks.size() >= processors) {
        makeRoom(pool, share, now);
        starving.put(pool, now);
      }
    }
  }

  private void end(Task task) {
    if (spark.schedulerBackend() instanceof Processes own) {
      own.end(task.executor);
    }
  }

  private long count(String pool) {
    return tasks.values().stream().filter(each -> each.pool.equals(pool) && each.ended == 0).count();
  }

  private void makeRoom(String hungry, int share, long now) {
    tasks.values().stream()
        .filter(each -> each.ended == 0 && !each.pool.equals(hungry))
        .filter(each -> count(each.pool) > share || (count(hungry) == 0 && now - each.began > turn(each.group)))
        .max(Comparator.<Task>comparingLong(each -> count(each.pool)).thenComparingLong(each -> each.began))
        .ifPresent(
            task -> {
              task.ended = now;
              given.merge(task.group, 1, Integer::sum);
              spark.killTaskAttempt(task.id, true, "another user's statement has its turn");
            });
  }

  private long turn(String group) {
    return FIRST_TURN_NANOS << Math.min(given.getOrDefault(group, 0), LONGEST_TURN);
  }
}
