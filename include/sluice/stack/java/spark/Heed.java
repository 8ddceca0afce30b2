package sluice.sql;

import java.io.Serializable;
import java.util.List;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenContext;
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback;
import org.apache.spark.sql.catalyst.expressions.codegen.ExprCode;
import org.apache.spark.sql.types.DataType;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The value of its child; each time it looks whether the statement is to end.
 *
 * <p>Spark looks between rows only, and a function such as {@code aggregate} may compute for days within one.
 */
final class Heed extends Expression implements CodegenFallback, Serializable {
  private static final long serialVersionUID = 1L;

  private final Expression child;

  Heed(Expression child) {
    this.child = child;
  }

  @Override
  public Object eval(InternalRow row) {
    TaskContext task = TaskContext.get();
    if (task != null) {
      task.killTaskIfInterrupted();
    } else if (Thread.currentThread().isInterrupted()) {
      throw new IllegalStateException("the statement was stopped");
    }
    return child.eval(row);
  }

  @Override
  public ExprCode doGenCode(CodegenContext context, ExprCode code) {
    return CodegenFallback.super.doGenCode(context, code);
  }

  @Override
  public DataType dataType() {
    return child.dataType();
  }

  @Override
  public boolean nullable() {
    return child.nullable();
  }

  @Override
  public boolean foldable() {
    return child.foldable();
  }

  @Override
  public Seq<Expression> children() {
    return CollectionConverters.asScala(List.of(child)).toSeq();
  }

  @Override
  public Expression withNewChildrenInternal(IndexedSeq<Expression> changed) {
    return new Heed(changed.apply(0));
  }

  @Override
  public Object productElement(int number) {
    return child;
  }

  @Override
  public int productArity() {
    return 1;
  }

  @Override
  public boolean canEqual(Object other) {
    return other instanceof Heed;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof Heed heed && heed.child.equals(child);
  }

  @Override
  public int hashCode() {
    return 31 * child.hashCode();
  }
}
