package sluice.sql;

import java.net.URI;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import java.util.regex.Pattern;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.analysis.UnresolvedFunction;
import org.apache.spark.sql.catalyst.analysis.UnresolvedGenerator;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.analysis.UnresolvedTableValuedFunction;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.Command;
import org.apache.spark.sql.catalyst.plans.logical.CreateNamespace;
import org.apache.spark.sql.catalyst.plans.logical.CreateView;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.SetTableProperties;
import org.apache.spark.sql.catalyst.plans.logical.SetViewProperties;
import org.apache.spark.sql.catalyst.plans.logical.UnresolvedTableSpec;
import org.apache.spark.sql.execution.command.CreateViewCommand;
import org.apache.spark.sql.execution.command.SetCommand;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import scala.Product;
import scala.Tuple2;
import scala.jdk.javaapi.CollectionConverters;

/** The rules for one statement of one caller; they look at each of its {@link Parts}. */
final class Rules {
  /** Tables with nothing of a line in them but what tasks count by. Every other table may hold lines. */
  private static final Set<String> WITHOUT_LINES = Set.of("reconciliations", "task_results");

  private static final Set<String> DATABASE_PROPERTIES = Set.of("comment", "location");

  /** What Spark notes with the target of an INSERT. */
  private static final Set<String> TARGET = Set.of("__required_write_privileges__");

  private static final Pattern PLACE = Pattern.compile("\\s*([a-z][a-z0-9+.-]*:/|file:)", Pattern.CASE_INSENSITIVE);
  private static final String ONLY_TABLES = "only tables may be read here, no files and no other sources";

  private final SparkSession session;
  private final Caller caller;

  Rules(SparkSession session, Caller caller) {
    this.session = session;
    this.caller = caller;
  }

  /** Refuse the part if it is not allowed. */
  void check(Object part) {
    if (part instanceof LogicalPlan plan) {
      checkNode(plan);
      checkFields(plan);
    } else if (part instanceof Expression expression) {
      checkExpression(expression);
    } else if (part instanceof URI place) {
      checkPlace(place);
    } else if (part instanceof Path place) {
      checkPlace(place.toUri());
    }
  }

  private void checkNode(LogicalPlan plan) {
    String name = plan.getClass().getName();
    if (caller.isOpening()) {
      if (!Plans.OPENING.contains(name)) {
        throw new SecurityException("the statement is not allowed: the session is not open; connect again");
      }
      return;
    }
    if (caller.role().isEmpty()) {
      throw new SecurityException(
          "the user " + caller.name() + " is not allowed any more: ask whoever runs the platform for another");
    }
    boolean changing = Plans.CHANGING.contains(name);
    if (Plans.QUERIES.contains(name) || Plans.READING.contains(name) || caller.isOwner() && changing) {
      return;
    }
    if (!caller.isOwner() && (plan instanceof Command || changing)) {
      throw new SecurityException(shortly(plan) + " is not allowed: you may only read");
    }
    throw new SecurityException(
        shortly(plan) + " is not allowed here: nobody may run code or use files of the server; use plain queries");
  }

  /** What a node says besides its children. */
  private void checkFields(LogicalPlan plan) {
    if (plan instanceof UnresolvedRelation relation) {
      Options.check(relation.options().keySet(), TARGET, "option", "of a table");
    } else if (plan instanceof UnresolvedTableValuedFunction function) {
      Functions.check(list(function.name()));
    } else if (plan instanceof LogicalRelation relation) {
      checkRelation(relation);
    } else if (plan instanceof DataSourceV2Relation relation && !isResults(relation)) {
      throw new SecurityException(ONLY_TABLES);
    } else if (plan instanceof SetCommand set) {
      checkSet(set);
    } else if (plan instanceof SetTableProperties set) {
      checkProperties(set.properties(), Options.PROPERTIES);
    } else if (plan instanceof SetViewProperties set) {
      checkProperties(set.properties(), Options.PROPERTIES);
    } else if (plan instanceof CreateView view) {
      checkProperties(view.properties(), Options.PROPERTIES);
    } else if (plan instanceof CreateViewCommand view) {
      checkProperties(view.properties(), Options.PROPERTIES);
    } else if (plan instanceof CreateNamespace database) {
      checkProperties(database.properties(), DATABASE_PROPERTIES);
    }
    if (plan instanceof Command command) {
      checkPlaces(command);
    }
  }

  private void checkExpression(Expression expression) {
    if (!Expressions.ALLOWED.contains(expression.getClass().getName())) {
      throw new SecurityException(
          expression.prettyName() + " is not allowed here: nobody may run code; use plain expressions");
    }
    if (expression instanceof UnresolvedFunction function) {
      Functions.check(list(function.nameParts()));
      Options.check(function);
    } else if (expression instanceof UnresolvedGenerator generator) {
      Functions.check(List.of(generator.name().unquotedString()));
    } else if (expression instanceof UnresolvedTableSpec table) {
      checkTable(table);
    } else {
      Options.check(expression);
    }
  }

  private static void checkTable(UnresolvedTableSpec table) {
    String source = table.provider().isEmpty() ? "parquet" : table.provider().get();
    Options.check(List.of(source), Options.SOURCES, "source", "of a table");
    if (table.serde().isDefined()) {
      throw new SecurityException("a SerDe is not allowed here: write USING parquet");
    }
    List<String> names = list(table.optionExpression().options()).stream().map(Tuple2::_1).toList();
    Options.check(names, Options.OF_TABLES, "option", "of a table");
    checkProperties(table.properties(), Options.PROPERTIES);
  }

  private static void checkProperties(scala.collection.immutable.Map<String, String> given, Set<String> allowed) {
    Options.check(CollectionConverters.asJava(given.keys()), allowed, "property", "");
  }

  private void checkRelation(LogicalRelation relation) {
    if (!(relation.relation() instanceof HadoopFsRelation files) || relation.catalogTable().isEmpty()) {
      throw new SecurityException(ONLY_TABLES);
    }
    CatalogTable table = relation.catalogTable().get();
    checkLines(table.identifier());
    for (Path root : list(files.location().rootPaths())) {
      checkPlace(root.toUri());
    }
  }

  /** A viewer may read results, and no lines: what the REST API says, too. */
  private void checkLines(TableIdentifier table) {
    if (!caller.mayReadLines() && !WITHOUT_LINES.contains(table.table().toLowerCase(Locale.ROOT))) {
      throw new SecurityException(
          "the table " + table.table() + " is not allowed: it may hold log lines, and the role " + caller.role()
              + " may read results only; query results, v_<task> or task_results, or ask for the role user");
    }
  }

  /** One of the platform's own tables over the results, by its name in the catalog. */
  private static boolean isResults(DataSourceV2Relation relation) {
    return relation.table() instanceof Results.Stored
        && relation.identifier().isDefined()
        && relation.options().isEmpty();
  }

  /** SET reads and changes a few settings only. */
  private static void checkSet(SetCommand set) {
    Tuple2<String, scala.Option<String>> given = set.kv().isEmpty() ? null : set.kv().get();
    boolean known = given != null && Guard.SETTABLE.contains(given._1());
    if (!known || given._2().isDefined() && !Guard.isPlain(given._2().get())) {
      throw new SecurityException(
          "SET is not allowed but for " + String.join(", ", Guard.SETTABLE) + ": you may only read, in a time zone");
    }
  }

  /** Every text that a command has as an argument, wherever, and that names a place: of a partition, an output. */
  private void checkPlaces(Object argument) {
    if (argument instanceof String text && PLACE.matcher(text).lookingAt()) {
      checkPlace(URI.create(text.strip().split(":")[0] + ":///"));
    } else if (argument instanceof scala.collection.Iterable<?> several) {
      CollectionConverters.asJava(several).forEach(this::checkPlaces);
    } else if (argument instanceof Product product
        && (argument instanceof Command || !(argument instanceof LogicalPlan))) {
      CollectionConverters.asJava(product.productIterator()).forEachRemaining(this::checkPlaces);
    }
  }

  private void checkPlace(URI place) {
    String scheme = new Path(session.sparkContext().hadoopConfiguration().get("fs.defaultFS")).toUri().getScheme();
    if (place.getScheme() != null && !place.getScheme().equalsIgnoreCase(scheme)) {
      throw new SecurityException(
          place.getScheme() + ": is not allowed here: the tables' files are on " + scheme + ":");
    }
  }

  private static String shortly(LogicalPlan plan) {
    return plan.getClass().getSimpleName().replaceAll("^Unresolved|Command\\$?$|\\$$", "");
  }

  private static <T> List<T> list(scala.collection.Seq<T> values) {
    return CollectionConverters.asJava(values);
  }
}
