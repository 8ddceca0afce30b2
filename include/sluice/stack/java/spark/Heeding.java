package sluice.sql;

import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.LambdaFunction;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.plans.logical.Command;
import org.apache.spark.sql.catalyst.plans.logical.LocalLimit;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.types.DataTypes;
import scala.Function1;
import scala.runtime.AbstractPartialFunction;
import scala.runtime.BoxedUnit;

/** What is added to a statement after it was checked, before it runs: bounds that Spark itself does not have. */
public final class Heeding implements Function1<SparkSessionExtensions, BoxedUnit> {
  @Override
  public BoxedUnit apply(SparkSessionExtensions extensions) {
    extensions.injectPlanNormalizationRule(session -> new Wrap());
    extensions.injectPlanNormalizationRule(Few::new);
    return BoxedUnit.UNIT;
  }

  /** Lets every loop of a higher-order function {@link Heed} a stop. */
  private static final class Wrap extends Rule<LogicalPlan> {
    @Override
    public LogicalPlan apply(LogicalPlan plan) {
      return (LogicalPlan) plan.transformAllExpressionsWithSubqueries(new Bodies());
    }
  }

  /**
   * A part of a result has no more rows than a whole one may have: its task would collect all of them in memory before
   * the first is counted.
   */
  private static final class Few extends Rule<LogicalPlan> {
    private final SparkSession session;

    private Few(SparkSession session) {
      this.session = session;
    }

    @Override
    public LogicalPlan apply(LogicalPlan plan) {
      Limits limits = Limits.of(session.sparkContext().conf());
      String user = Endpoint.userOf(session);
      boolean bounded = user == null || limits.isOwner(user) || plan instanceof Command || plan instanceof LocalLimit;
      int most = (int) Math.min(limits.resultRows(), Integer.MAX_VALUE - 1) + 1;
      return bounded ? plan : new LocalLimit(Literal.create(most, DataTypes.IntegerType), plan);
    }
  }

  private static final class Bodies extends AbstractPartialFunction<Expression, Expression> {
    private static final long serialVersionUID = 1L;

    @Override
    public boolean isDefinedAt(Expression expression) {
      return expression instanceof LambdaFunction lambda && !(lambda.function() instanceof Heed);
    }

    @Override
    public <A extends Expression, B> B applyOrElse(A expression, Function1<A, B> otherwise) {
      if (!isDefinedAt(expression)) {
        return otherwise.apply(expression);
      }
      LambdaFunction lambda = (LambdaFunction) (Expression) expression;
      @SuppressWarnings("unchecked")
      B wrapped = (B) new LambdaFunction(new Heed(lambda.function()), lambda.arguments(), lambda.hidden());
      return wrapped;
    }
  }
}
