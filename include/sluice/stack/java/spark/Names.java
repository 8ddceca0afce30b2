package sluice.sql;

import java.util.Arrays;
import java.util.HashSet;
import java.util.Set;
import java.util.stream.Collectors;

/** Reads the lists of this package. */
final class Names {
  private Names() {}

  /** The words of a text. */
  static Set<String> words(String text) {
    return Arrays.stream(text.strip().split("\\s+")).collect(Collectors.toUnmodifiableSet());
  }

  /** Full names of classes: a word that ends with a colon is the package of those that follow. */
  static Set<String> classes(String text) {
    Set<String> found = new HashSet<>();
    String inPackage = "";
    for (String word : text.strip().split("\\s+")) {
      if (word.endsWith(":")) {
        inPackage = word.substring(0, word.length() - 1) + ".";
      } else {
        found.add(inPackage + word);
      }
    }
    return Set.copyOf(found);
  }
}
