package sluice.sql;

import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.ExternalClusterManager;
import org.apache.spark.scheduler.SchedulerBackend;
import org.apache.spark.scheduler.TaskScheduler;
import org.apache.spark.scheduler.TaskSchedulerImpl;

/** What Spark's master {@code local-processes[N]} stands for: tasks run in N processes of their own ({@link Processes}). */
public final class Cluster implements ExternalClusterManager {
  // spark-submit accepts no other beginnings than its own: this is one of them, and yet not its local mode.
  private static final Pattern MASTER = Pattern.compile("local-processes\\[(\\d{1,4})\\]");

  static boolean isMeant(String master) {
    return MASTER.matcher(master).matches();
  }

  @Override
  public boolean canCreate(String master) {
    return isMeant(master);
  }

  @Override
  public TaskScheduler createTaskScheduler(SparkContext spark, String master) {
    return new Scheduler(spark);
  }

  @Override
  public SchedulerBackend createSchedulerBackend(SparkContext spark, String master, TaskScheduler scheduler) {
    Matcher count = MASTER.matcher(master);
    count.matches();
    return new Processes(spark, (TaskSchedulerImpl) scheduler, Integer.parseInt(count.group(1)));
  }

  @Override
  public void initialize(TaskScheduler scheduler, SchedulerBackend backend) {
    ((TaskSchedulerImpl) scheduler).initialize(backend);
  }
}
