package sluice.sql;

import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.SupportsPushDownFilters;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceCreationResult;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.execution.datasources.v2.python.PythonScanBuilder;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.sources.IsNotNull;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.Option;

/**
 * The tables over final and live results: {@code CREATE TABLE ... USING sluice.sql.Results}.
 *
 * <p>All work is done by the Python data source {@code sluice}. Spark's own way to it drops a table's options, reads
 * every column, and lets two scans of a statement share the filters of the second; this class does not. A table can
 * only be read.
 */
public final class Results implements TableProvider {
  private static final String SOURCE = "sluice";
  private static final Set<String> OPTIONS = Set.of("task", "version");
  private static final String COMMENT = "sluice.comment";

  /** What Python made for these options: it is the same for every statement. */
  private static final Map<Map<String, String>, PythonDataSourceCreationResult> MADE = new ConcurrentHashMap<>();

  @Override
  public StructType inferSchema(CaseInsensitiveStringMap options) {
    throw new IllegalArgumentException("name the columns: the platform creates these tables by itself");
  }

  @Override
  public boolean supportsExternalMetadata() {
    return true;
  }

  @Override
  public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> properties) {
    Map<String, String> options = new HashMap<>();
    OPTIONS.stream().filter(properties::containsKey).forEach(name -> options.put(name, properties.get(name)));
    // Spark does not hand a table its own comment.
    String comment = properties.getOrDefault(COMMENT, "");
    return new Stored(schema, Map.copyOf(options), Map.of(TableCatalog.PROP_COMMENT, comment));
  }

  /** One of the tables. */
  record Stored(StructType schema, Map<String, String> options, Map<String, String> properties)
      implements Table, SupportsRead {
    @Override
    public String name() {
      return SOURCE;
    }

    @Override
    public Set<TableCapability> capabilities() {
      return Set.of(TableCapability.BATCH_READ);
    }

    @Override
    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap given) {
      return new Planned(this);
    }
  }

  /** A scan that is being planned; each has a Python data source of its own. */
  private static final class Planned implements SupportsPushDownFilters, SupportsPushDownRequiredColumns {
    private final Stored table;
    private StructType columns;
    private Filter[] filters = {};

    private Planned(Stored table) {
      this.table = table;
      this.columns = table.schema();
    }

    /** All filters are returned: Spark applies them again to what Python reads. */
    @Override
    public Filter[] pushFilters(Filter[] given) {
      filters = given;
      return given;
    }

    @Override
    public Filter[] pushedFilters() {
      return filters;
    }

    @Override
    public void pruneColumns(StructType required) {
      // A batch without columns would lose the number of its rows.
      columns = required.isEmpty() ? new StructType(new StructField[] {table.schema().apply("period")}) : required;
    }

    @Override
    public Scan build() {
      PythonDataSourceV2 python = new Python();
      python.setShortName(SOURCE);
      CaseInsensitiveStringMap options = new CaseInsensitiveStringMap(table.options());
      PythonScanBuilder builder = new PythonScanBuilder(python, SOURCE, columns, options);
      // With one filter at least, all statements are planned by the same kind of Python process.
      Filter[] sent = new Filter[filters.length + 1];
      System.arraycopy(filters, 0, sent, 1, filters.length);
      sent[0] = new IsNotNull("`" + columns.fieldNames()[0] + "`");
      builder.pushFilters(sent);
      return builder.build();
    }
  }

  /** The Python data source of one scan. It is made in Python once for each table, not for each statement. */
  private static final class Python extends PythonDataSourceV2 {
    @Override
    public PythonDataSourceCreationResult getOrCreateDataSourceInPython(
        String name, CaseInsensitiveStringMap options, Option<StructType> columns) {
      return MADE.computeIfAbsent(
          Map.copyOf(options), same -> super.getOrCreateDataSourceInPython(name, options, columns));
    }
  }
}
