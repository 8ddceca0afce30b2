package sluice.sql;

import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.spark.ExceptionFailure;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;
import org.apache.spark.SparkEnv;
import org.apache.spark.TaskFailedReason;
import org.apache.spark.TaskState;
import org.apache.spark.executor.ExecutorExitCode;
import org.apache.spark.rpc.RpcAddress;
import org.apache.spark.scheduler.ExecutorExited;
import org.apache.spark.scheduler.TaskSchedulerImpl;
import org.apache.spark.scheduler.cluster.CoarseGrainedClusterMessages;
import org.apache.spark.scheduler.cluster.CoarseGrainedSchedulerBackend;
import org.apache.spark.serializer.SerializerInstance;
import org.apache.spark.util.SparkExitCode;
import org.apache.spark.util.Utils;
import scala.Function1;
import scala.PartialFunction;
import scala.jdk.javaapi.CollectionConverters;
import scala.reflect.ClassTag;
import scala.runtime.AbstractPartialFunction;
import scala.runtime.BoxedUnit;

/**
 * Spark's executors, each a process of its own with one task at a time, and begun again when it ends.
 *
 * <p>So a task that fills its memory ends no other, and one that does not heed that it was stopped is ended with its
 * process. An executor does not outlive the endpoint: it ends with the connection.
 */
final class Processes extends CoarseGrainedSchedulerBackend {
  /** Why a task that ended with its executor did so, as Spark's listeners are told. */
  static final String OUT_OF_MEMORY = "java.lang.OutOfMemoryError";

  private static final long SHORTEST_PAUSE_MILLIS = 1_000;
  private static final long LONGEST_PAUSE_MILLIS = 30_000;
  private static final long SHORT_LIFE_SECONDS = 10;

  private final SparkContext spark;
  private final int wanted;
  private final Map<String, Process> running = new HashMap<>();
  private int last;
  private long pause = SHORTEST_PAUSE_MILLIS;
  private boolean stopped;

  Processes(SparkContext spark, TaskSchedulerImpl scheduler, int wanted) {
    super(scheduler, spark.env().rpcEnv());
    this.spark = spark;
    this.wanted = wanted;
  }

  @Override
  public void start() {
    super.start();
    for (int each = 0; each < wanted; each++) {
      begin();
    }
  }

  @Override
  public void stop() {
    synchronized (this) {
      stopped = true;
      running.values().forEach(Process::destroy);
    }
    super.stop();
  }

  private synchronized void begin() {
    if (stopped) {
      return;
    }
    String id = Integer.toString(last++);
    ProcessBuilder builder = new ProcessBuilder(command(id));
    builder.redirectOutput(ProcessBuilder.Redirect.INHERIT).redirectError(ProcessBuilder.Redirect.INHERIT);
    builder.environment().putAll(CollectionConverters.asJava(spark.executorEnvs()));
    // The same as the endpoint's own: then the same archive of classes fits.
    builder.environment().put("CLASSPATH", System.getProperty("java.class.path"));
    Process process;
    try {
      process = builder.start();
    } catch (IOException error) {
      System.err.println("the SQL endpoint cannot begin an executor: " + error);
      later(true);
      return;
    }
    running.put(id, process);
    long began = System.nanoTime();
    process.onExit().thenAccept(ended -> replace(id, ended, System.nanoTime() - began));
    try (OutputStream input = process.getOutputStream()) {
      input.write((conf().get(Endpoint.SECRET) + "\n").getBytes(StandardCharsets.US_ASCII));
    } catch (IOException gone) {
      process.destroyForcibly();
    }
  }

  /** End the executor at once: it may be busy with the collection of garbage and hear nothing. */
  synchronized void end(String id) {
    Process process = running.get(id);
    if (process != null) {
      process.destroyForcibly();
    }
  }

  private void replace(String id, Process ended, long lived) {
    synchronized (this) {
      running.remove(id);
      if (stopped) {
        return;
      }
    }
    removeExecutor(id, reason(ended.exitValue()));
    later(lived < TimeUnit.SECONDS.toNanos(SHORT_LIFE_SECONDS));
  }

  /** Begin another one; after longer and longer if they do not live. */
  private synchronized void later(boolean failed) {
    pause = failed ? Math.min(2 * pause, LONGEST_PAUSE_MILLIS) : SHORTEST_PAUSE_MILLIS;
    CompletableFuture.delayedExecutor(pause, TimeUnit.MILLISECONDS).execute(this::begin);
  }

  /** No fault of the task: it may have come to the executor when that was already ending. */
  private static ExecutorExited reason(int code) {
    String why = code == SparkExitCode.OOM() ? OUT_OF_MEMORY : ExecutorExitCode.explainExitCode(code);
    return new ExecutorExited(code, false, why);
  }

  private List<String> command(String id) {
    SparkConf conf = conf();
    String host = conf.get("spark.driver.host");
    List<String> words = new ArrayList<>();
    words.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
    words.add("-Xmx" + spark.executorMemory() + "m");
    words.addAll(options(conf.get("spark.executor.extraJavaOptions", "")));
    words.addAll(CollectionConverters.asJava(Utils.sparkJavaOpts(conf, SparkConf::isExecutorStartupConf)));
    words.add(Executor.class.getName());
    words.addAll(List.of("--driver-url", "spark://" + ENDPOINT_NAME() + "@" + host + ":" + conf.get("spark.driver.port")));
    words.addAll(List.of("--executor-id", id, "--cores", "1", "--resourceProfileId", "0"));
    words.addAll(List.of("--hostname", host, "--bind-address", conf.get("spark.driver.bindAddress", host)));
    words.addAll(List.of("--app-id", applicationId()));
    return words;
  }

  private static List<String> options(String line) {
    return CollectionConverters.asJava(Utils.splitCommandString(line));
  }

  @Override
  public DriverEndpoint createDriverEndpoint() {
    return new Watching();
  }

  /**
   * The end of a connection says nothing of its cause: the process's exit code does, a moment later. Nor did a task
   * fail that came to an executor when that was already ending: it is lost with it, and another one computes it.
   */
  private final class Watching extends DriverEndpoint {
    private Watching() {
      Processes.this.super();
    }

    @Override
    public void onDisconnected(RpcAddress address) {}

    @Override
    public PartialFunction<Object, BoxedUnit> receive() {
      PartialFunction<Object, BoxedUnit> usual = super.receive();
      return new AbstractPartialFunction<>() {
        @Override
        public boolean isDefinedAt(Object message) {
          return usual.isDefinedAt(message);
        }

        @Override
        @SuppressWarnings("unchecked")
        public <A extends Object, B> B applyOrElse(A message, Function1<A, B> otherwise) {
          if (message instanceof CoarseGrainedClusterMessages.StatusUpdate update && cameTooLate(update)) {
            return (B) BoxedUnit.UNIT;
          }
          return ((PartialFunction<A, B>) (PartialFunction<?, ?>) usual).applyOrElse(message, otherwise);
        }
      };
    }
  }

  private static boolean cameTooLate(CoarseGrainedClusterMessages.StatusUpdate update) {
    if (!TaskState.FAILED().equals(update.state())) {
      return false;
    }
    SerializerInstance serializer = SparkEnv.get().closureSerializer().newInstance();
    TaskFailedReason reason;
    try {
      reason = serializer.deserialize(update.data().value().duplicate(), ClassTag.apply(TaskFailedReason.class));
    } catch (RuntimeException | LinkageError unreadable) {
      return false;  // Spark says so itself
    }
    return reason instanceof ExceptionFailure failure
        && failure.className().equals(RejectedExecutionException.class.getName());
  }
}
