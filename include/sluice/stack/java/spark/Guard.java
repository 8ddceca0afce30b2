package sluice.sql;

import java.util.List;
import java.util.Set;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.PlanExpression;
import org.apache.spark.sql.catalyst.plans.logical.Command;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.command.SetCommand;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import scala.Function1;
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
          "ScriptTransformation", "AddJar", "AddJarCommand", "AddJars", "AddJarsCommand", "AddFile", "AddFileCommand",
          "AddFiles", "AddFilesCommand", "AddArchive", "AddArchiveCommand", "AddArchives", "AddArchivesCommand",
          "CreateFunction", "CreateFunctionCommand", "CreateUserDefinedFunction", "CreateUserDefinedFunctionCommand",
          "CreateSQLFunctionCommand", "LoadData", "LoadDataCommand", "InsertIntoDir", "InsertIntoDataSourceDirCommand",
          "InsertIntoHiveDirCommand", "RunnableCommandWithScript");

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
          "DescribeTableCommand", "DescribeTableExec", "ExplainCommand", "SetCatalogAndNamespace", "SetCatalogCommand",
          "SetNamespaceCommand", "ShowCatalogsCommand", "ShowColumns", "ShowColumnsCommand", "ShowCreateTable",
          "ShowCreateTableCommand", "ShowCurrentNamespaceCommand", "ShowFunctions", "ShowFunctionsCommand",
          "ShowNamespaces", "ShowNamespacesCommand", "ShowPartitions", "ShowPartitionsCommand", "ShowTableProperties",
          "ShowTablePropertiesCommand", "ShowTables", "ShowTablesCommand", "ShowViews", "ShowViewsCommand");

  /** What an analyst may set in a session. */
  private static final Set<String> SETTABLE = Set.of("spark.sql.session.timeZone");

  @Override
  public BoxedUnit apply(SparkSessionExtensions extensions) {
    extensions.injectCheckRule(session -> plan -> check(session, plan));
    return BoxedUnit.UNIT;
  }

  private static BoxedUnit check(SparkSession session, LogicalPlan plan) {
    String owner = session.sparkContext().conf().get("spark.sluice.sql.owner");
    visit(session, plan, owner.equals(Endpoint.userOf(session)));
    return BoxedUnit.UNIT;
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
      throw new SecurityException("only tables may be read here, no files and no other sources");
    }
    String scheme = new Path(session.sparkContext().hadoopConfiguration().get("fs.defaultFS")).toUri().getScheme();
    for (Path root : list(files.location().rootPaths())) {
      String own = root.toUri().getScheme();
      if (own != null && !own.equals(scheme)) {
        throw new SecurityException(own + ": is not allowed here: the tables' files are on " + scheme + ":");
      }
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
