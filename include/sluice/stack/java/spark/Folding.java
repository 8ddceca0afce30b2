package sluice.sql;

import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.optimizer.ConstantFolding;
import org.apache.spark.sql.catalyst.optimizer.ConvertToLocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Spark's two rules that compute values while a statement is planned, for cheap values only. Spark's own are off
 * ({@code spark.sql.optimizer.excludedRules}).
 *
 * <p>Planning takes place in the endpoint's own process, where nothing bounds it. What is not on the list is left to a
 * task, which can be ended at any point.
 */
final class Folding extends Rule<LogicalPlan> {
  /** Functions whose time and result grow no faster than their arguments. */
  static final Set<String> CHEAP =
      Names.classes(
          """
          org.apache.spark.sql.catalyst.expressions:
            Abs Add AddMonths Alias And AttributeReference CaseWhen Cast Ceil Coalesce CreateArray CreateMap
            CreateNamedStruct DateAdd DateAddInterval DateAddYMInterval DateDiff DateFormatClass DateFromUnixDate
            DateSub DayOfMonth DayOfWeek DayOfYear Divide EqualNullSafe EqualTo ExtractANSIIntervalDays Floor
            FromUTCTimestamp FromUnixTime GetArrayItem GetStructField GetTimestamp GreaterThan GreaterThanOrEqual
            Greatest Hour If In InSet IntegralDivide IsNotNull IsNull LastDay Least Length LessThan LessThanOrEqual
            Literal Lower MakeDTInterval MakeDate MakeInterval MakeTimestamp MakeYMInterval MicrosToTimestamp
            MillisToTimestamp Minute Month MonthsBetween Multiply MultiplyDTInterval NextDay Not Or Pmod Quarter
            Remainder Second SecondsToTimestamp Substring Subtract SubtractDates SubtractTimestamps TimestampAdd
            TimestampAddInterval TimestampDiff ToUTCTimestamp ToUnixTimestamp TruncDate TruncTimestamp UnaryMinus
            UnixDate UnixTimestamp Upper WeekDay WeekOfYear Year
          """);

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    if (plan.exists(node -> !isCheap(node))) {
      return plan;
    }
    return ConvertToLocalRelation.apply(ConstantFolding.apply(plan));
  }

  private static boolean isCheap(LogicalPlan node) {
    boolean local = CollectionConverters.asJava(node.children()).stream().anyMatch(LocalRelation.class::isInstance);
    return CollectionConverters.asJava(node.expressions()).stream()
        .allMatch(each -> local ? !each.exists(Folding::isDear) : !hasDearConstant(each));
  }

  private static boolean hasDearConstant(Expression expression) {
    if (expression instanceof Literal) {
      return false;
    }
    if (expression.foldable()) {
      return expression.exists(Folding::isDear);
    }
    return CollectionConverters.asJava(expression.children()).stream().anyMatch(Folding::hasDearConstant);
  }

  private static Object isDear(Expression expression) {
    return !CHEAP.contains(expression.getClass().getName());
  }
}
