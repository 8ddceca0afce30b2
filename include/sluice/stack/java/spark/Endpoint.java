package sluice.sql;

import java.util.Map;
import org.apache.hive.service.Service;
import org.apache.hive.service.cli.HiveSQLException;
import org.apache.hive.service.cli.SessionHandle;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.hive.thriftserver.HiveThriftServer2;
import org.apache.spark.sql.hive.thriftserver.SparkSQLCLIService;
import org.apache.spark.sql.hive.thriftserver.SparkSQLSessionManager;
import org.apache.spark.sql.hive.thriftserver.server.SparkSQLOperationManager;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The SQL endpoint: Spark's Thrift Server, which here can tell who opened each session.
 *
 * <p>Spark itself does not tell a session's user to the rules that check statements ({@link Guard}).
 */
public final class Endpoint {
  private static volatile SparkSQLSessionManager sessions;
  private static volatile Map<String, String> settings = Map.of();

  private Endpoint() {}

  public static void main(String[] arguments) {
    SparkSession spark = SparkSession.builder().getOrCreate();
    settings = Map.copyOf(CollectionConverters.asJava(spark.newSession().conf().getAll()));
    HiveThriftServer2 server = HiveThriftServer2.startWithSparkSession(spark, true);
    for (Service service : server.getServices()) {
      if (service instanceof SparkSQLCLIService cli) {
        sessions = (SparkSQLSessionManager) cli.getSessionManager();
      }
    }
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
