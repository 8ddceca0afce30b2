package sluice.sql;

import java.time.Instant;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.plans.logical.GlobalLimit;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.UnresolvedWith;
import org.apache.spark.sql.execution.SparkSqlParser;

/**
 * The endpoint's own two statements: {@code SHOW STATEMENTS} and {@code CANCEL STATEMENT 'id'}. The platform's own user
 * sees and cancels everybody's, others their own.
 */
final class Listing {
  private static final Pattern SHOW = Pattern.compile("\\s*SHOW\\s+STATEMENTS\\s*;?\\s*", Pattern.CASE_INSENSITIVE);
  private static final Pattern CANCEL =
      Pattern.compile("\\s*CANCEL\\s+STATEMENT\\s+'?(\\w{1,20})'?\\s*;?\\s*", Pattern.CASE_INSENSITIVE);
  private static final String COLUMNS = "id, user, since, seconds, state, statement";
  private static final int BEGIN_LETTERS = 300;
  /** A result of so few rows is collected at once. */
  private static final int FEW_ROWS = 1_000;

  private static final String INCREMENTAL = "spark.sql.thriftServer.incrementalCollect";

  private Listing() {}

  /** The statement as Spark knows it: the answer itself for one of the endpoint's own. */
  static String rewritten(String text, Statements statements, String user, Limits limits) throws Refused {
    if (text == null) {
      return "";
    }
    List<Statement> visible =
        statements.all().stream().filter(each -> limits.isOwner(user) || each.user.equals(user)).toList();
    if (SHOW.matcher(text).matches()) {
      return shown(visible);
    }
    Matcher cancel = CANCEL.matcher(text);
    if (!cancel.matches()) {
      return text;
    }
    Statement found =
        visible.stream()
            .filter(each -> each.id.equals(cancel.group(1)))
            .findAny()
            .orElseThrow(() -> new Refused("no statement " + cancel.group(1) + " of yours runs: see SHOW STATEMENTS"));
    statements.stop(found, "the statement was cancelled by " + (found.user.equals(user) ? "its user" : "an operator"));
    return "SELECT * FROM VALUES (" + Text.literal(found.id) + ") AS statements(cancelled)";
  }

  private static String shown(List<Statement> visible) {
    if (visible.isEmpty()) {
      return "SELECT * FROM VALUES ('', '', '', 0D, '', '') AS statements(" + COLUMNS + ") WHERE false";
    }
    return visible.stream()
        .map(Listing::row)
        .collect(Collectors.joining(", ", "SELECT * FROM VALUES ", " AS statements(" + COLUMNS + ")"));
  }

  private static String row(Statement each) {
    String since = Instant.ofEpochMilli(each.since).toString();
    List<String> texts =
        List.of(
            Text.literal(each.id),
            Text.literal(each.user),
            Text.literal(since),
            String.format("%.1fD", each.nanos() / 1e9),
            Text.literal(each.state()),
            Text.literal(Text.shown(each.text, BEGIN_LETTERS)));
    return texts.stream().collect(Collectors.joining(", ", "(", ")"));
  }

  /** Literals are collected without a job, which would have to wait for what its user runs. */
  static void collectAtOnce(SparkSession session) {
    session.conf().set(INCREMENTAL, false);
  }

  /**
   * How the session's next result is collected: partition by partition, which needs little memory; or, with a small
   * LIMIT, at once, because then Spark reads only as many files as it needs.
   */
  static void collectAsFits(SparkSession session, String text) {
    boolean few;
    try {
      few = isFew(new SparkSqlParser().parsePlan(text));
    } catch (Exception | StackOverflowError wrong) {
      few = false; // Whoever runs it is told.
    }
    session.conf().set(INCREMENTAL, !few);
  }

  private static boolean isFew(LogicalPlan plan) {
    LogicalPlan inner = plan instanceof UnresolvedWith with ? with.child() : plan;
    return inner instanceof GlobalLimit limit
        && limit.limitExpr() instanceof Literal literal
        && literal.value() instanceof Integer rows
        && rows <= FEW_ROWS;
  }
}
