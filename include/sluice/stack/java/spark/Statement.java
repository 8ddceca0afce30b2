package sluice.sql;

import java.util.concurrent.CountDownLatch;
import org.apache.hive.service.cli.OperationHandle;
import org.apache.hive.service.cli.SessionHandle;
import org.apache.hive.service.cli.operation.Operation;
import org.apache.hive.service.rpc.thrift.TColumn;
import org.apache.hive.service.rpc.thrift.TColumnValue;
import org.apache.hive.service.rpc.thrift.TRow;
import org.apache.hive.service.rpc.thrift.TRowSet;
import org.apache.spark.sql.hive.thriftserver.SparkOperation;

/** One statement, from its call until its result is closed. */
final class Statement {
  private static final int FIRST_ROWS = 100;
  private static final int MOST_ROWS = 10_000;
  private static final long ANSWER_BYTES = 4 << 20;

  final String id;
  final String user;
  final String text;
  final SessionHandle session;
  /** Whether it waits for no other. */
  final boolean atOnce;
  final long since = System.currentTimeMillis();
  /** Whether it ran to its end; its result may still be read. */
  final CountDownLatch done = new CountDownLatch(1);

  /** The thread that works for it now; null while nothing is to be done. */
  volatile Thread thread;

  /** Why the endpoint stopped it. */
  volatile String stopped;

  volatile long stoppedAt;

  /** Whether its thread may still end by itself. */
  volatile boolean heeds = true;

  volatile Operation operation;
  volatile long allocated;
  volatile boolean fetching;
  private volatile long began;
  private volatile long spent;
  private long rows;
  private long bytes;
  private int nextRows = FIRST_ROWS;

  Statement(String id, String user, String text, SessionHandle session, boolean atOnce) {
    this.id = id;
    this.user = user;
    this.text = text;
    this.session = session;
    this.atOnce = atOnce;
  }

  OperationHandle handle() {
    return operation == null ? null : operation.getHandle();
  }

  /** The name of its jobs at Spark; null before it has any. */
  String group() {
    return operation instanceof SparkOperation spark ? spark.statementId() : null;
  }

  void begin(Thread worker) {
    began = System.nanoTime();
    thread = worker;
  }

  void pause() {
    if (thread != null) {
      spent = nanos();
      thread = null;
    }
  }

  /** How long it has been worked for; the time in which the client does not ask does not count. */
  long nanos() {
    return thread == null ? spent : spent + System.nanoTime() - began;
  }

  String state() {
    if (stopped != null) {
      return "stops";
    }
    if (thread != null) {
      return fetching ? "sends" : "runs";
    }
    return done.getCount() > 0 ? "waits" : "is read";
  }

  /** How many rows to ask for: few, until their size is known. */
  long rowsNow(long asked) {
    return Math.max(1, Math.min(asked, nextRows));
  }

  /** Count what is sent; returns why it is too much, or null. */
  String sent(TRowSet set, Limits limits) {
    long[] size = size(set);
    rows += size[0];
    bytes += size[1];
    if (size[0] > 0) {
      long fit = ANSWER_BYTES / Math.max(1, size[1] / size[0]);
      nextRows = (int) Math.max(1, Math.min(Math.min(fit, MOST_ROWS), 4L * nextRows));
    }
    if (rows > limits.resultRows()) {
      return "the result has more than " + limits.resultRows() + " rows (sql.result_rows): " + NARROW;
    }
    if (bytes > limits.resultBytes()) {
      return "the result has more than " + limits.resultBytes() + " bytes (sql.result_bytes): " + NARROW;
    }
    return null;
  }

  private static final String NARROW = "narrow it with WHERE, LIMIT or GROUP BY";

  /** A message as a person can use it. */
  static String plain(String message) {
    if (message == null) {
      return null;
    }
    if (message.contains("OutOfMemoryError") || message.contains("bigger than spark.driver.maxResultSize")) {
      return "the statement needs more memory than the endpoint has (spark.sql_memory, spark.sql_task_memory): " + NARROW;
    }
    if (message.contains("StackOverflowError")) {
      return "the statement is nested too deep: give its parts names with WITH, or make several statements of it";
    }
    return message;
  }

  private static long[] size(TRowSet set) {
    if (set == null) {
      return new long[2];
    }
    long rows = set.getRowsSize();
    long bytes = 0;
    for (TRow row : set.isSetRows() ? set.getRows() : java.util.List.<TRow>of()) {
      for (TColumnValue value : row.getColVals()) {
        bytes += value.isSetStringVal() && value.getStringVal().isSetValue() ? value.getStringVal().getValue().length() : 8;
      }
    }
    for (TColumn column : set.isSetColumns() ? set.getColumns() : java.util.List.<TColumn>of()) {
      if (column.isSetStringVal()) {
        rows = Math.max(rows, column.getStringVal().getValuesSize());
        bytes += column.getStringVal().getValues().stream().mapToLong(String::length).sum();
      } else if (column.isSetBinaryVal()) {
        rows = Math.max(rows, column.getBinaryVal().getValuesSize());
        bytes += column.getBinaryVal().getValues().stream().mapToLong(each -> each.remaining()).sum();
      } else {
        rows = Math.max(rows, ((java.util.List<?>) valuesOf(column)).size());
        bytes += 8L * ((java.util.List<?>) valuesOf(column)).size();
      }
    }
    return new long[] {rows, bytes};
  }

  private static Object valuesOf(TColumn column) {
    return switch (column.getSetField()) {
      case BOOL_VAL -> column.getBoolVal().getValues();
      case BYTE_VAL -> column.getByteVal().getValues();
      case I16_VAL -> column.getI16Val().getValues();
      case I32_VAL -> column.getI32Val().getValues();
      case I64_VAL -> column.getI64Val().getValues();
      case DOUBLE_VAL -> column.getDoubleVal().getValues();
      default -> java.util.List.of();
    };
  }
}
