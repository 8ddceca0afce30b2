package sluice.sql;

import java.nio.charset.StandardCharsets;
import org.antlr.v4.runtime.CharStreams;
import org.antlr.v4.runtime.Token;
import org.apache.spark.sql.catalyst.parser.SqlBaseLexer;
import org.apache.spark.sql.catalyst.parser.UpperCaseCharStream;

/**
 * What can be seen of a statement before it is parsed. Parsing and analysing take memory and time that grow faster than
 * the number of words, and a stack as deep as the parentheses.
 */
final class Shape {
  private Shape() {}

  /** Raises a Refused if the statement is too long, nested too deep, or has too many words. */
  static void check(String text, Limits limits) throws Refused {
    if (text == null || text.isBlank()) {
      throw new Refused("the statement is empty: give one");
    }
    int bytes = text.length() > limits.statementBytes() ? text.length() : text.getBytes(StandardCharsets.UTF_8).length;
    if (bytes > limits.statementBytes()) {
      throw new Refused(
          "the statement has " + bytes + " bytes, and " + limits.statementBytes()
              + " are allowed (sql.statement_bytes): make several statements of it");
    }
    SqlBaseLexer words = new SqlBaseLexer(new UpperCaseCharStream(CharStreams.fromString(text)));
    words.removeErrorListeners();
    int depth = 0;
    int count = 0;
    for (Token word = words.nextToken(); word.getType() != Token.EOF; word = words.nextToken()) {
      int type = word.getType();
      if (word.getChannel() == Token.DEFAULT_CHANNEL && type != SqlBaseLexer.COMMA) {
        count++;
      }
      if (type == SqlBaseLexer.LEFT_PAREN || type == SqlBaseLexer.LEFT_BRACKET || type == SqlBaseLexer.CASE) {
        depth++;
      } else if (type == SqlBaseLexer.RIGHT_PAREN || type == SqlBaseLexer.RIGHT_BRACKET || type == SqlBaseLexer.END) {
        depth = Math.max(0, depth - 1);
      }
      if (depth > limits.nesting()) {
        throw new Refused(
            "the statement is nested more than " + limits.nesting()
                + " deep (sql.nesting): give its parts names with WITH");
      }
      if (count > limits.values()) {
        throw new Refused(
            "the statement has more than " + limits.values()
                + " values, names and signs (sql.values): use BETWEEN or LIKE in place of a long list, "
                + "or make several statements of it");
      }
    }
  }
}
