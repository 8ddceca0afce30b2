package sluice.sql;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.net.URI;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.catalog.HiveTableRelation;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.PlanExpression;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.catalyst.plans.logical.Command;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.command.SetCommand;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import scala.Function1;
import scala.Product;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.BoxedUnit;

/**
 * Checks every statement after it is analysed and before it runs.
 *
 * <p>Nobody may start a program, call a Java method, load code, or read or write the server's own files. All users but
 * the platform's own ({@code spark.sluice.sql.owner}) may only read: a command that is not in {@code READING} is
 * refused, except for {@code SET}, which may read settings and change those in {@code SETTABLE}.
 */
public final class Guard implements Function1<SparkSessionExtensions, BoxedUnit> {
  /** Statements that run or load code, or move files between the server's disk and elsewhere. */
  private static final Set<String> NEVER =
      Set.of(
          "ScriptTransformation", "AddJarsCommand", "AddFilesCommand", "AddArchivesCommand", "CreateFunction",
          "CreateFunctionCommand", "CreateUserDefinedFunction", "CreateUserDefinedFunctionCommand",
          "CreateSQLFunctionCommand", "LoadData", "LoadDataCommand", "InsertIntoDir", "InsertIntoDataSourceDirCommand",
          "InsertIntoHiveDirCommand");

  /** Functions that call any method by its name, and all of Hive's own, because some of them do. */
  private static final Set<String> NEVER_CALLED =
      Set.of(
          "CallMethodViaReflection", "TryReflect", "HiveSimpleUDF", "HiveGenericUDF", "HiveGenericUDTF",
          "HiveUDAFFunction");

  /** Statements besides queries that change nothing but the session's current database. */
  private static final Set<String> READING =
      Set.of(
          "DescribeColumn", "DescribeColumnCommand", "DescribeDatabaseCommand", "DescribeFunction",
          "DescribeFunctionCommand", "DescribeNamespace", "DescribeQueryCommand", "DescribeRelation",
          "DescribeTableCommand", "ExplainCommand", "SetCatalogAndNamespace", "SetCatalogCommand",
          "SetNamespaceCommand", "ShowCatalogsCommand", "ShowColumns", "ShowColumnsCommand", "ShowCreateTable",
          "ShowCreateTableCommand", "ShowCurrentNamespaceCommand", "ShowFunctions", "ShowFunctionsCommand",
          "ShowNamespacesCommand", "ShowPartitions", "ShowPartitionsCommand", "ShowTableProperties",
          "ShowTablePropertiesCommand", "ShowTables", "ShowTablesCommand", "ShowViews", "ShowViewsCommand");

  private static final String ONLY_TABLES = "only tables may be read here, no files and no other sources";

  /** What the endpoint itself sets in each session that it opens, and Hive's JDBC driver. */
  private static final Set<String> OPENED =
      Set.of(
          "spark.sql.hive.version", "spark.sql.datetime.java8API.enabled", "spark.sql.binaryOutputStyle",
          "spark.sql.thriftserver.scheduler.pool", "spark.sql.thriftServer.incrementalCollect");

  /** What an analyst may set in a session. */
  private static final Set<String> SETTABLE = Set.of("spark.sql.session.timeZone");

  @Override
  public BoxedUnit apply(SparkSessionExtensions extensions) {
    extensions.injectParser(Guard::checking);
    extensions.injectCheckRule(session -> plan -> check(session, plan));
    return BoxedUnit.UNIT;
  }

  /** The same parser, which first looks at the session's settings: analysing a statement may already act on them. */
  private static ParserInterface checking(SparkSession session, ParserInterface parser) {
    return (ParserInterface)
        Proxy.newProxyInstance(
            ParserInterface.class.getClassLoader(),
            new Class<?>[] {ParserInterface.class},
            (proxy, method, arguments) -> {
              if (method.getName().startsWith("parse") && !isOwner(session)) {
                checkSettings(session);
              }
              try {
                return method.invoke(parser, arguments);
              } catch (InvocationTargetException thrown) {
                throw thrown.getCause();
              }
            });
  }

  /** Settings can be given when a session is opened, past SET: a catalog to load, a file system's class. */
  private static void checkSettings(SparkSession session) {
    Map<String, String> before = Endpoint.settings();
    for (Map.Entry<String, String> each : CollectionConverters.asJava(session.conf().getAll()).entrySet()) {
      String name = each.getKey();
      if (!each.getValue().equals(before.get(name)) && !SETTABLE.contains(name) && !OPENED.contains(name)) {
        throw new SecurityException("the setting " + name + " is not allowed: you may only read");
      }
    }
  }

  private static BoxedUnit check(SparkSession session, LogicalPlan plan) {
    visit(session, plan, isOwner(session));
    return BoxedUnit.UNIT;
  }

  private static boolean isOwner(SparkSession session) {
    return session.sparkContext().conf().get("spark.sluice.sql.owner").equals(Endpoint.userOf(session));
  }

  private static void visit(SparkSession session, LogicalPlan plan, boolean owner) {
    String name = plan.getClass().getSimpleName();
    if (NEVER.contains(name)) {
      throw new SecurityException(name + " is not allowed here: nobody may run code or use files of the server");
    }
    if (!owner && plan instanceof Command && !READING.contains(name) && !mayBeSet(plan)) {
      throw new SecurityException(name + " is not allowed: you may only read");
    }
    if (plan instanceof LogicalRelation relation) {
      checkRelation(session, relation, owner);
    }
    if (plan instanceof HiveTableRelation relation) {
      checkPlace(session, relation.tableMeta().location());
    }
    if ((name.startsWith("DataSourceV2") && !isResults(plan)) || name.startsWith("Streaming")) {
      throw new SecurityException(ONLY_TABLES);
    }
    if (plan instanceof Command command) {
      checkPlaces(session, command);
    }
    for (LogicalPlan child : list(plan.children())) {
      visit(session, child, owner);
    }
    for (Object inner : list(plan.innerChildren())) {
      if (inner instanceof LogicalPlan child) {
        visit(session, child, owner);
      }
    }
    for (Expression expression : list(plan.expressions())) {
      visit(session, expression, owner);
    }
  }

  private static void visit(SparkSession session, Expression expression, boolean owner) {
    if (NEVER_CALLED.contains(expression.getClass().getSimpleName())) {
      throw new SecurityException(expression.prettyName() + " is not allowed here: nobody may run code");
    }
    if (expression instanceof PlanExpression<?> subquery && subquery.plan() instanceof LogicalPlan plan) {
      visit(session, plan, owner);
    }
    for (Expression child : list(expression.children())) {
      visit(session, child, owner);
    }
  }

  private static void checkRelation(SparkSession session, LogicalRelation relation, boolean owner) {
    boolean table = relation.catalogTable().isDefined();
    if (!(relation.relation() instanceof HadoopFsRelation files) || !(owner || table)) {
      throw new SecurityException(ONLY_TABLES);
    }
    for (Path root : list(files.location().rootPaths())) {
      checkPlace(session, root.toUri());
    }
  }

  /** One of the platform's own tables over the results, by its name in the catalog. */
  private static boolean isResults(LogicalPlan plan) {
    return plan instanceof DataSourceV2Relation relation
        && relation.table() instanceof Results.Stored
        && relation.identifier().isDefined();
  }

  /** Every place that a command names, wherever in its arguments: of a table, a partition, an output. */
  private static void checkPlaces(SparkSession session, Object argument) {
    if (argument instanceof URI uri) {
      checkPlace(session, uri);
    } else if (argument instanceof Path path) {
      checkPlace(session, path.toUri());
    } else if (argument instanceof String text && text.toLowerCase(Locale.ROOT).trim().startsWith("file:")) {
      checkPlace(session, URI.create("file:///"));
    } else if (argument instanceof scala.collection.Iterable<?> several) {
      CollectionConverters.asJava(several).forEach(each -> checkPlaces(session, each));
    } else if (argument instanceof Product product && !(argument instanceof LogicalPlan && !(argument instanceof Command))) {
      CollectionConverters.asJava(product.productIterator()).forEachRemaining(each -> checkPlaces(session, each));
    }
  }

  private static void checkPlace(SparkSession session, URI place) {
    String scheme = new Path(session.sparkContext().hadoopConfiguration().get("fs.defaultFS")).toUri().getScheme();
    if (place.getScheme() != null && !place.getScheme().equalsIgnoreCase(scheme)) {
      throw new SecurityException(place.getScheme() + ": is not allowed here: the tables' files are on " + scheme + ":");
    }
  }

  /** SET without a value reads; a value may be given to a few settings only. */
  private static boolean mayBeSet(LogicalPlan plan) {
    return plan instanceof SetCommand set
        && (set.kv().isEmpty() || set.kv().get()._2().isEmpty() || SETTABLE.contains(set.kv().get()._1()));
  }

  private static <T> List<T> list(scala.collection.Seq<T> values) {
    return CollectionConverters.asJava(values);
  }
}
