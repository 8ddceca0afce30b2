package sluice.sql;

import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.security.SecureRandom;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.FutureTask;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hive.service.CompositeService;
import org.apache.hive.service.Service;
import org.apache.hive.service.cli.HiveSQLException;
import org.apache.hive.service.cli.SessionHandle;
import org.apache.hive.service.cli.session.SessionManager;
import org.apache.hive.service.cli.thrift.ThriftBinaryCLIService;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.hive.HiveUtils$;
import org.apache.spark.sql.hive.thriftserver.HiveThriftServer2;
import org.apache.spark.sql.hive.thriftserver.SparkSQLCLIService;
import org.apache.spark.sql.hive.thriftserver.SparkSQLSessionManager;
import org.apache.spark.sql.hive.thriftserver.server.SparkSQLOperationManager;
import org.apache.spark.sql.hive.thriftserver.ui.HiveThriftServer2EventManager;
import org.apache.spark.sql.hive.thriftserver.ui.HiveThriftServer2Listener;
import org.apache.spark.status.ElementTrackingStore;
import org.apache.thrift.protocol.TProtocolUtil;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The SQL endpoint: Spark's Thrift Server with a {@link Door} of its own, bounds for statements ({@link Statements},
 * {@link Shares}, {@link Memory}), and the knowledge of who opened each session.
 *
 * <p>Spark itself does not tell a session's user to the rules that check statements ({@link Guard}).
 */
public final class Endpoint {
  /** Of a session: the fair pool of its jobs, which is its user's. */
  static final String POOL = "spark.sql.thriftserver.scheduler.pool";

  /** With this the endpoint and its executors know each other, until it ends. */
  static final String SECRET = "spark.authenticate.secret";

  private static final String MASTER = "spark.master";
  private static final int SECRET_BYTES = 32;
  private static final int BROKEN = 52;
  private static final int DEPTH_OF_UNKNOWN_FIELDS = 32;
  private static final long TICK_MILLIS = 250;

  private static volatile SparkSQLSessionManager sessions;
  private static volatile Map<String, String> settings = Map.of();

  private Endpoint() {}

  public static void main(String[] arguments) {
    if (Cluster.isMeant(System.getProperty(MASTER, ""))) {
      System.setProperty(SECRET, secret());
    }
    SparkSession spark = SparkSession.builder().getOrCreate();
    settings = Map.copyOf(CollectionConverters.asJava(spark.newSession().conf().getAll()));
    TProtocolUtil.setMaxSkipDepth(DEPTH_OF_UNKNOWN_FIELDS);
    SparkContext context = spark.sparkContext();
    HiveThriftServer2 server = new HiveThriftServer2(spark);
    HiveThriftServer2.systemExitOnError().set(true);
    HiveThriftServer2.eventManager_$eq(new HiveThriftServer2EventManager(context));
    ElementTrackingStore store = (ElementTrackingStore) context.statusStore().store();
    HiveThriftServer2Listener listener =
        new HiveThriftServer2Listener(store, context.conf(), Option.apply(server), true);
    HiveThriftServer2.listener_$eq(listener);
    HiveThriftServer2.uiTab_$eq(Option.empty());
    context.addSparkListener(listener);
    HiveConf conf =
        HiveUtils$.MODULE$.newClientForExecution(context.conf(), spark.sessionState().newHadoopConf()).conf();
    server.init(conf);
    try {
      open(server, conf, context);
    } catch (ReflectiveOperationException error) {
      throw new IllegalStateException("Sluice was not written for this release of Spark", error);
    }
    server.start();
  }

  private static String secret() {
    byte[] bytes = new byte[SECRET_BYTES];
    new SecureRandom().nextBytes(bytes);
    return HexFormat.of().formatHex(bytes);
  }

  /** Put the door into the place of Hive's own, and the bounds behind it. */
  private static void open(HiveThriftServer2 server, HiveConf conf, SparkContext context)
      throws ReflectiveOperationException {
    Limits limits = Limits.of(context.conf());
    for (Service each : List.copyOf(server.getServices())) {
      if (each instanceof ThriftBinaryCLIService) {
        of("removeService").invoke(server, each);
      }
    }
    SparkSQLCLIService service = (SparkSQLCLIService) server.getServices().iterator().next();
    sessions = (SparkSQLSessionManager) service.getSessionManager();
    Statements statements = new Statements(service, context, limits);
    // Hive's own pool of threads does not tell which statement a thread works for.
    Field pool = SessionManager.class.getDeclaredField("backgroundOperationPool");
    pool.setAccessible(true);
    ((ThreadPoolExecutor) pool.get(sessions)).shutdownNow();
    pool.set(sessions, new Pool(statements));
    Door door = new Door(service, limits, statements);
    of("addService").invoke(server, door);
    door.init(conf);
    keep(context, statements, door);
  }

  private static Method of(String name) throws NoSuchMethodException {
    Method method = CompositeService.class.getDeclaredMethod(name, Service.class);
    method.setAccessible(true);
    return method;
  }

  private static final class Pool extends ThreadPoolExecutor {
    private final Statements statements;

    private Pool(Statements statements) {
      super(0, Integer.MAX_VALUE, 60, TimeUnit.SECONDS, new SynchronousQueue<>(), Pool::thread);
      this.statements = statements;
    }

    private static Thread thread(Runnable work) {
      Thread thread = new Thread(work, "sql-statement");
      thread.setDaemon(true);
      return thread;
    }

    @Override
    public Future<?> submit(Runnable work) {
      FutureTask<Void> task = statements.submitted(work);
      execute(task);
      return task;
    }
  }

  private static void keep(SparkContext context, Statements statements, Door door) {
    Shares shares = new Shares(context, statements::outOfMemory);
    context.addSparkListener(shares);
    Memory memory = new Memory(statements);
    Executors.newSingleThreadScheduledExecutor()
        .scheduleWithFixedDelay(
            () -> {
              try {
                if (context.isStopped()) {
                  Runtime.getRuntime().halt(BROKEN);
                }
                door.closeLate();
                statements.tick();
                shares.tick();
                memory.tick();
              } catch (RuntimeException passing) {
                System.err.println("the SQL endpoint's watch: " + passing);
              }
            },
            TICK_MILLIS,
            TICK_MILLIS,
            TimeUnit.MILLISECONDS);
  }

  /** The settings of a new session to which nothing was given. */
  static Map<String, String> settings() {
    return settings;
  }

  /** Who opened the session; null while it is being opened, because the server does not know it yet. */
  static String userOf(SparkSession session) {
    SparkSQLSessionManager manager = sessions;
    if (manager == null) {
      return null;
    }
    SparkSQLOperationManager operations = (SparkSQLOperationManager) manager.getOperationManager();
    for (Map.Entry<SessionHandle, SparkSession> each : operations.sessionToContexts().entrySet()) {
      if (each.getValue() == session) {
        try {
          return manager.getSession(each.getKey()).getUserName();
        } catch (HiveSQLException closed) {
          return null;
        }
      }
    }
    return null;
  }
}
