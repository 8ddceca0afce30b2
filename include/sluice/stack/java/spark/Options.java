package sluice.sql;

import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.analysis.UnresolvedFunction;
import org.apache.spark.sql.catalyst.expressions.CsvToStructs;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.JsonToStructs;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedArgumentExpression;
import org.apache.spark.sql.catalyst.expressions.SchemaOfCsv;
import org.apache.spark.sql.catalyst.expressions.SchemaOfJson;
import org.apache.spark.sql.catalyst.expressions.StructsToCsv;
import org.apache.spark.sql.catalyst.expressions.StructsToJson;
import scala.jdk.javaapi.CollectionConverters;

/** The options that may be given, by what they are given to. None names a file, a class, an address or a codec. */
final class Options {
  /** Of the functions for JSON and CSV: how a text is written, and nothing else. In lower case, as all here. */
  static final Set<String> OF_FUNCTIONS =
      Names.words(
          """
          allowbackslashescapinganycharacter allowcomments allownonnumericnumbers allownumericleadingzeros
          allowsinglequotes allowunquotedcontrolchars allowunquotedfieldnames chartoescapequoteescaping
          columnnameofcorruptrecord comment dateformat delimiter dropfieldifallnull emptyvalue
          enabledatetimeparsingfallback escape escapequotes ignoreleadingwhitespace ignorenullfields
          ignoretrailingwhitespace locale mode nanvalue negativeinf nullvalue positiveinf preferdate prefersdecimal
          pretty primitivesasstring quote quoteall sep timestampformat timestampntzformat timezone
          unescapedquotehandling writenonasciicharacterascodepoint
          """);

  /** Of a table when the platform's own user creates it: tree of files, and the results' task and version. */
  static final Set<String> OF_TABLES = Set.of("path", "recursivefilelookup", "task", "version");

  /** What a table or view may say about itself. */
  static final Set<String> PROPERTIES = Set.of("comment", "sluice.catalogue", "sluice.comment", "sluice.table");

  /** Sources that a table may have. */
  static final Set<String> SOURCES = Set.of("parquet", "sluice.sql.results");

  /** Where each function takes its options. */
  static final Map<String, Integer> PLACES =
      Map.of("from_csv", 2, "from_json", 2, "schema_of_csv", 1, "schema_of_json", 1, "to_csv", 1, "to_json", 1);

  private Options() {}

  /** Refuse options that are not on a list, or that are not written out as {@code map('name', 'value')}. */
  static void check(UnresolvedFunction function) {
    List<Expression> arguments = CollectionConverters.asJava(function.arguments());
    Integer place = PLACES.get(function.nameParts().last().toString().toLowerCase(Locale.ROOT));
    if (place == null || arguments.size() <= place) {
      return;
    }
    if (!(arguments.get(place) instanceof UnresolvedFunction map)
        || !map.nameParts().last().toString().equalsIgnoreCase("map")
        || !CollectionConverters.asJava(map.arguments()).stream().allMatch(each -> each instanceof Literal)) {
      throw new SecurityException(
          "options that are not written out are not allowed: write map('name', 'value', ...) with texts only");
    }
    List<Expression> words = CollectionConverters.asJava(map.arguments());
    for (int i = 0; i < words.size(); i += 2) {
      check(List.of(words.get(i).toString()), OF_FUNCTIONS, "option", "of " + function.nameParts().last());
    }
  }

  /** Refuse a function's options, wherever they came from, that are not on the list. */
  static void check(Expression function) {
    if (function instanceof NamedArgumentExpression named && named.key().equalsIgnoreCase("options")) {
      throw new SecurityException("options by name are not allowed: write map('name', 'value', ...) in their place");
    }
    scala.collection.immutable.Map<String, String> options = null;
    if (function instanceof JsonToStructs each) {
      options = each.options();
    } else if (function instanceof StructsToJson each) {
      options = each.options();
    } else if (function instanceof SchemaOfJson each) {
      options = each.options();
    } else if (function instanceof CsvToStructs each) {
      options = each.options();
    } else if (function instanceof StructsToCsv each) {
      options = each.options();
    } else if (function instanceof SchemaOfCsv each) {
      options = each.options();
    }
    if (options != null) {
      check(CollectionConverters.asJava(options.keys()), OF_FUNCTIONS, "option", "of " + function.prettyName());
    }
  }

  static void check(Iterable<String> names, Set<String> allowed, String what, String where) {
    for (String name : names) {
      if (!allowed.contains(name.toLowerCase(Locale.ROOT))) {
        throw new SecurityException(
            "the " + what + " " + name + " " + where + " is not allowed here: leave it out; allowed are "
                + String.join(", ", allowed.stream().sorted().toList()));
      }
    }
  }
}
