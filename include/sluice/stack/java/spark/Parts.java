package sluice.sql;

import java.net.URI;
import java.util.ArrayDeque;
import java.util.Collections;
import java.util.Deque;
import java.util.IdentityHashMap;
import java.util.Set;
import java.util.function.Consumer;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.plans.QueryPlan;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.types.DataType;
import scala.Product;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Everything that a statement holds: plan nodes, expressions, and what is in their arguments, at any depth.
 *
 * <p>Spark's own ways through a plan leave out what a command keeps as an argument: the statement behind EXPLAIN, a
 * view's query, a table's options.
 */
final class Parts {
  private final Set<Object> seen = Collections.newSetFromMap(new IdentityHashMap<>());
  private final Deque<Object> left = new ArrayDeque<>();

  private Parts() {}

  /** Call with each part of the tree. It does not call itself, because a tree may be deep. */
  static void each(TreeNode<?> root, Consumer<Object> look) {
    Parts parts = new Parts();
    parts.add(root);
    while (!parts.left.isEmpty()) {
      Object part = parts.left.pop();
      look.accept(part);
      parts.open(part);
    }
  }

  private void open(Object part) {
    if (part instanceof Literal) {
      return; // its value is data
    }
    if (part instanceof TreeNode<?> node) {
      addAll(node.children());
      addAll(node.innerChildren());
    }
    if (part instanceof QueryPlan<?> plan) {
      addAll(plan.expressions());
    }
    if (part instanceof scala.collection.Iterable<?> several) {
      addAll(several);
    } else if (part instanceof Product product) {
      CollectionConverters.asJava(product.productIterator()).forEachRemaining(this::add);
    }
  }

  private void addAll(scala.collection.Iterable<?> several) {
    CollectionConverters.asJava(several).forEach(this::add);
  }

  private void add(Object part) {
    boolean inner = part instanceof Product || part instanceof scala.collection.Iterable<?>;
    if ((inner || part instanceof URI || part instanceof Path) && !(part instanceof DataType) && seen.add(part)) {
      left.push(part);
    }
  }
}
