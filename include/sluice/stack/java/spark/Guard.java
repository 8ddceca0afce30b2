package sluice.sql;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.util.Map;
import java.util.Set;
import java.util.function.Function;
import java.util.function.Supplier;
import java.util.regex.Pattern;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.catalyst.plans.logical.DeserializeToObject;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import scala.Function1;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.BoxedUnit;

/**
 * Checks every statement twice before it runs: as it was parsed, because analysing it may already load what it names,
 * and after it was analysed, because only then it is known what a name means.
 *
 * <p>All that a statement may hold is on a list: {@link Functions}, {@link Options}, {@link Expressions}, {@link
 * Plans}. What is on none is refused, to the platform's own user, too. {@link Rules} has them.
 */
public final class Guard implements Function1<SparkSessionExtensions, BoxedUnit> {
  /** What the endpoint itself sets in each session that it opens, and Hive's JDBC driver. */
  private static final Set<String> OPENED =
      Set.of(
          "spark.sql.hive.version", "spark.sql.datetime.java8API.enabled", "spark.sql.binaryOutputStyle",
          "spark.sql.thriftserver.scheduler.pool", "spark.sql.thriftServer.incrementalCollect");

  /** What may be set in a session, to such a value: Spark replaces a variable in a value when it reads it. */
  static final Set<String> SETTABLE = Set.of("spark.sql.session.timeZone");

  private static final Pattern VALUE = Pattern.compile("[A-Za-z0-9_/:+.-]{0,64}");

  private final Function<SparkSession, Caller> callers;
  private final Supplier<Map<String, String>> settings;

  /** For the endpoint. */
  public Guard() {
    this(Caller::of, Endpoint::settings);
  }

  /** For sessions of this caller alone, which begin with these settings. */
  public Guard(Caller caller, Map<String, String> settings) {
    this(session -> caller, () -> settings);
  }

  private Guard(Function<SparkSession, Caller> callers, Supplier<Map<String, String>> settings) {
    this.callers = callers;
    this.settings = settings;
  }

  @Override
  public BoxedUnit apply(SparkSessionExtensions extensions) {
    extensions.injectParser(this::checking);
    extensions.injectCheckRule(
        session ->
            plan -> {
              if (!isRows(plan)) {
                check(session, plan);
              }
              return BoxedUnit.UNIT;
            });
    extensions.injectOptimizerRule(session -> new Folding());
    return BoxedUnit.UNIT;
  }

  /** The same parser, which looks at the session's settings before, and at what was parsed after. */
  private ParserInterface checking(SparkSession session, ParserInterface parser) {
    return (ParserInterface)
        Proxy.newProxyInstance(
            ParserInterface.class.getClassLoader(),
            new Class<?>[] {ParserInterface.class},
            (proxy, method, arguments) -> {
              if (method.getName().startsWith("parse")) {
                checkSettings(session);
              }
              try {
                Object parsed = method.invoke(parser, arguments);
                if (parsed instanceof TreeNode<?> tree) {
                  check(session, tree);
                }
                return parsed;
              } catch (InvocationTargetException thrown) {
                throw thrown.getCause();
              }
            });
  }

  /** Not a statement: how Spark hands rows to a program. No statement has such a node. */
  private static boolean isRows(LogicalPlan plan) {
    return plan instanceof DeserializeToObject rows
        && rows.child() instanceof LocalRelation none
        && none.data().isEmpty();
  }

  private void check(SparkSession session, TreeNode<?> tree) {
    Rules rules = new Rules(session, callers.apply(session));
    Parts.each(tree, rules::check);
  }

  /** Settings can be given when a session is opened, past SET: a catalog to load, a file system's class. */
  private void checkSettings(SparkSession session) {
    if (session.sessionState().conf().variableSubstituteEnabled()) {
      throw new SecurityException("spark.sql.variable.substitute is not allowed: it shows the server's environment");
    }
    Map<String, String> before = settings.get();
    for (Map.Entry<String, String> each : CollectionConverters.asJava(session.conf().getAll()).entrySet()) {
      String name = each.getKey();
      boolean known = SETTABLE.contains(name) || OPENED.contains(name);
      if (!each.getValue().equals(before.get(name)) && !(known && isPlain(each.getValue()))) {
        throw new SecurityException(
            "the setting " + name + " is not allowed: leave it out; you may set " + String.join(", ", SETTABLE));
      }
    }
  }

  static boolean isPlain(String value) {
    return VALUE.matcher(value).matches();
  }
}
