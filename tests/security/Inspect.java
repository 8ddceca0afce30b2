import java.io.File;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.function.Consumer;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.zip.ZipFile;
import org.apache.spark.sql.catalyst.DataSourceOptions;
import org.apache.spark.sql.catalyst.analysis.FunctionRegistry;
import org.apache.spark.sql.catalyst.analysis.FunctionRegistryBase;
import org.apache.spark.sql.catalyst.analysis.TableFunctionRegistry;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.ExpressionInfo;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import scala.jdk.javaapi.CollectionConverters;
import sluice.sql.Caller;
import sluice.sql.Guard;

/**
 * Prints what Spark has, and what the SQL endpoint's guard says to statements, in sessions without an endpoint.
 *
 * <p>Usage: {@code java Inspect.java JARS FOLDER STATEMENTS}, with a line {@code role<TAB>statement} each in the file of
 * statements; the role {@code setup} makes what the others find. After these, {@code user} sends the examples of all of
 * Spark's functions. Each line of the output begins with what it is about: {@code expression}, {@code plan}, {@code
 * option}, {@code function}, {@code example}, {@code used}, {@code answer}.
 */
public final class Inspect {
  private static final Pattern EXAMPLE = Pattern.compile("^\\s*> (SELECT.*?);\\s*$", Pattern.MULTILINE | Pattern.DOTALL);
  private static final TreeSet<String> EXAMPLES = new TreeSet<>();
  private static final TreeSet<String> USED = new TreeSet<>();

  public static void main(String[] arguments) throws Exception {
    classes(Path.of(arguments[0]));
    functions("function", FunctionRegistry.builtin());
    functions("table", TableFunctionRegistry.builtin());
    statements(Path.of(arguments[1]), Path.of(arguments[2]));
  }

  private static void say(String... words) {
    System.out.println(String.join("\t", words).replace("\n", " "));
  }

  private static void classes(Path jars) throws Exception {
    for (File jar : jars.toFile().listFiles((folder, name) -> name.startsWith("spark-") && name.endsWith(".jar"))) {
      try (ZipFile packed = new ZipFile(jar)) {
        for (var entry : Collections.list(packed.entries())) {
          String name = entry.getName();
          if (name.endsWith(".class") && name.startsWith("org/apache/spark/")) {
            look(name.substring(0, name.length() - ".class".length()).replace('/', '.'));
          }
        }
      }
    }
  }

  private static void look(String name) throws Exception {
    Class<?> found;
    try {
      found = Class.forName(name, false, Inspect.class.getClassLoader());
    } catch (LinkageError elsewhere) {
      return; // needs a library that the endpoint does not have
    }
    if (Modifier.isAbstract(found.getModifiers())) {
      return;
    }
    if (Expression.class.isAssignableFrom(found)) {
      say("expression", name);
    } else if (LogicalPlan.class.isAssignableFrom(found)) {
      say("plan", name);
    } else if (DataSourceOptions.class.isAssignableFrom(found) && name.endsWith("$")) {
      Object options = found.getField("MODULE$").get(null);
      for (Method method : found.getMethods()) {
        if (method.getName().endsWith("DataSourceOptions$$validOptions") && method.getParameterCount() == 0) {
          for (Object each : CollectionConverters.asJava((scala.collection.Map<?, ?>) method.invoke(options)).keySet()) {
            say("option", name.substring(name.lastIndexOf('.') + 1, name.length() - 1), each.toString());
          }
        }
      }
    }
  }

  private static void functions(String kind, FunctionRegistryBase<?> registry) {
    for (var name : CollectionConverters.asJava(registry.listFunction())) {
      say("function", name.funcName(), kind);
      ExpressionInfo about = registry.lookupFunction(name).get();
      Matcher example = EXAMPLE.matcher(about.getExamples());
      while (example.find()) {
        String statement = example.group(1).replaceAll("\\s+", " ").strip();
        say("example", name.funcName(), statement);
        EXAMPLES.add(statement);
      }
    }
  }

  private static void statements(Path folder, Path given) throws Exception {
    SparkSession.Builder builder = SparkSession.builder();
    builder.master("local[1]").config("spark.ui.enabled", "false").config("spark.sql.session.timeZone", "UTC");
    builder.config("spark.sql.warehouse.dir", folder.toString()).config("spark.sql.shuffle.partitions", "1");
    builder.config("spark.hadoop.fs.defaultFS", "file:///").config("spark.sql.runSQLOnFiles", "false");
    builder.config("spark.sql.variable.substitute", "false");
    SparkSession free = (SparkSession) builder.getOrCreate();
    Map<String, SparkSession> sessions = new HashMap<>(Map.of("setup", free));
    List<String> lines = new ArrayList<>(Files.readAllLines(given));
    EXAMPLES.forEach(example -> lines.add("user\t" + example));
    for (String line : lines) {
      String[] parts = line.split("\t", 2);
      SparkSession session = sessions.computeIfAbsent(parts[0], role -> guarded(free, role));
      String said = "";
      try {
        Dataset<?> answer = (Dataset<?>) session.sql(parts[1]);
        use(answer.queryExecution().logical());
        use(answer.queryExecution().analyzed());
        if (parts[1].contains("${") || parts[0].equals("viewer")) {
          said = "= " + answer.collectAsList();
        }
      } catch (Throwable refused) {
        said = "! " + refused;
      }
      say("answer", parts[0], parts[1], said);
    }
    USED.forEach(each -> say("used", each));
  }

  /** A session of somebody with this role, with a catalog of its own and the same tables. */
  private static SparkSession guarded(SparkSession free, String role) {
    Map<String, String> settings = CollectionConverters.asJava(free.newSession().conf().getAll());
    Caller caller = new Caller(role.equals("opening") ? null : "ann", role.equals("removed") ? "" : role);
    SparkSession.clearActiveSession();
    SparkSession.clearDefaultSession();
    SparkSession made = (SparkSession) SparkSession.builder().withExtensions(new Guard(caller, settings)).getOrCreate();
    var tables = free.sharedState().externalCatalog();
    for (String name : CollectionConverters.asJava(tables.listTables("default"))) {
      made.sharedState().externalCatalog().createTable(tables.getTable("default", name), true);
    }
    return made;
  }

  private static void use(LogicalPlan plan) throws Exception {
    Method each = Class.forName("sluice.sql.Parts").getDeclaredMethod("each", TreeNode.class, Consumer.class);
    each.setAccessible(true);
    Consumer<Object> note =
        part -> {
          if (part instanceof TreeNode<?>) {
            USED.add(part.getClass().getName());
          }
        };
    each.invoke(null, plan, note);
  }
}
