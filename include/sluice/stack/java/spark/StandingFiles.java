package sluice.sql;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.conf.Configured;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathFilter;

/**
 * Leaves out the archive's files that a merged one has replaced, which stay for a day; see sluice.archive.standing.
 *
 * <p>Spark makes one for each look at a table's files, and asks it of each name. It lists a directory once.
 */
public final class StandingFiles extends Configured implements PathFilter {
  private static final Pattern NAME = Pattern.compile("(\\d{20})(?:-(\\d{20})(?:-(\\d{1,9}))?)?\\.parquet");

  /** Positions [first, next) of a merged file that stands; revision: how often lines were erased in it. */
  private record Merged(long first, long next, long revision) {
    static Merged of(Matcher name) {
      String revision = name.group(3);
      return new Merged(
          Long.parseLong(name.group(1)),
          Long.parseLong(name.group(2)),
          revision == null ? 0 : Long.parseLong(revision));
    }
  }

  private final Map<Path, List<Merged>> standing = new HashMap<>();

  @Override
  public boolean accept(Path path) {
    Matcher name = NAME.matcher(path.getName());
    if (!name.matches()) {
      return true;
    }
    long first = Long.parseLong(name.group(1));
    List<Merged> merged = standing.computeIfAbsent(path.getParent(), this::merged);
    if (name.group(2) != null) {
      return merged.contains(Merged.of(name));
    }
    return merged.stream().noneMatch(one -> one.first() <= first && first < one.next());
  }

  /**
   * Of two that overlap the one that begins first stands, of two that begin together the longer one, and of two with
   * the same positions the later revision.
   */
  private List<Merged> merged(Path directory) {
    List<Merged> found = new ArrayList<>();
    try {
      Configuration conf = getConf() == null ? new Configuration() : getConf();
      for (FileStatus each : directory.getFileSystem(conf).listStatus(directory)) {
        Matcher name = NAME.matcher(each.getPath().getName());
        if (name.matches() && name.group(2) != null) {
          found.add(Merged.of(name));
        }
      }
    } catch (IOException away) {
      throw new UncheckedIOException(away);
    }
    found.sort(
        Comparator.comparingLong(Merged::first)
            .thenComparing(Merged::next, Comparator.reverseOrder())
            .thenComparing(Merged::revision, Comparator.reverseOrder()));
    List<Merged> kept = new ArrayList<>();
    long reach = 0;
    for (Merged each : found) {
      if (each.first() >= reach) {
        kept.add(each);
        reach = each.next();
      }
    }
    return kept;
  }
}
