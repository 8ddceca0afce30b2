package sluice.sql;

/** Text that came from a client, for messages and answers. */
final class Text {
  private Text() {}

  /** The begin of the text with control characters, and what is not of the basic plane, as {@code \\uNNNN}. */
  static String shown(String text, int letters) {
    if (text == null) {
      return "(none)";
    }
    StringBuilder shown = new StringBuilder();
    for (char letter : text.substring(0, Math.min(text.length(), letters)).toCharArray()) {
      if (letter == '\n' || letter == '\t') {
        shown.append(' ');
      } else if (Character.isISOControl(letter) || isInvisible(letter)) {
        shown.append(String.format("\\u%04x", (int) letter));
      } else {
        shown.append(letter);
      }
    }
    return shown.append(text.length() > letters ? "..." : "").toString();
  }

  /** A literal of SQL that no text can break out of. */
  static String literal(String text) {
    StringBuilder literal = new StringBuilder("'");
    for (char letter : text.toCharArray()) {
      if (letter < 128 && (Character.isLetterOrDigit(letter) || " _-.,:/=+()*".indexOf(letter) >= 0)) {
        literal.append(letter);
      } else {
        literal.append(String.format("\\u%04x", (int) letter));
      }
    }
    return literal.append("'").toString();
  }

  private static boolean isInvisible(char letter) {
    int type = Character.getType(letter);
    return type == Character.FORMAT
        || type == Character.SURROGATE
        || type == Character.LINE_SEPARATOR
        || type == Character.PARAGRAPH_SEPARATOR;
  }
}
