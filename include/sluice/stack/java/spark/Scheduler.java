package sluice.sql;

import java.util.HashMap;
import java.util.Map;
import java.util.stream.IntStream;
import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.Pool;
import org.apache.spark.scheduler.Schedulable;
import org.apache.spark.scheduler.TaskDescription;
import org.apache.spark.scheduler.TaskSchedulerImpl;
import org.apache.spark.scheduler.WorkerOffer;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Spark's scheduler, which keeps a processor free for a moment when a user's last task has ended.
 *
 * <p>A statement has several stages, with moments between them. If another user's tasks took the processor in each of
 * these, it would have to be taken away from them each time ({@link Shares}).
 */
final class Scheduler extends TaskSchedulerImpl {
  private static final long BETWEEN_STAGES_NANOS = 500_000_000L;

  /** When each pool last had a task that ran. */
  private final Map<String, Long> ran = new HashMap<>();

  Scheduler(SparkContext spark) {
    super(spark);
  }

  @Override
  public synchronized Seq<Seq<TaskDescription>> resourceOffers(IndexedSeq<WorkerOffer> offers, boolean all) {
    boolean keeps = !offers.isEmpty() && isBetweenStages(System.nanoTime());
    return super.resourceOffers(keeps ? (IndexedSeq<WorkerOffer>) offers.drop(1) : offers, all);
  }

  private boolean isBetweenStages(long now) {
    boolean found = false;
    for (Schedulable each : rootPool().schedulableQueue()) {
      if (each.runningTasks() > 0) {
        ran.put(each.name(), now);
      } else if (each instanceof Pool pool && !waits(pool)) {
        found |= now - ran.getOrDefault(each.name(), now - BETWEEN_STAGES_NANOS) < BETWEEN_STAGES_NANOS;
      }
    }
    ran.values().removeIf(last -> now - last >= BETWEEN_STAGES_NANOS);
    return found;
  }

  /** Whether a task of the pool could begin now. */
  private static boolean waits(Pool pool) {
    return CollectionConverters.asJava(pool.getSortedTaskSetQueue()).stream()
        .anyMatch(
            set ->
                IntStream.range(0, set.numTasks())
                    .anyMatch(task -> set.copiesRunning()[task] == 0 && !set.successful()[task]));
  }
}
