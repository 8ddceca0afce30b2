package sluice.flume;

import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonParseException;
import com.google.gson.reflect.TypeToken;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.Map;
import java.util.TreeMap;

/**
 * Which content of a file's name is being read: its generation, kept in {@code generations.json} beside TAILDIR's
 * position file.
 *
 * <p>A name begins with generation 0. When its content was replaced (truncated, or made again), the next one begins.
 * Names are those of the records, so that an instance may be moved. A name is never forgotten (150 bytes each), as the
 * ledger does not forget it either.
 *
 * <p>System properties: {@code sluice.folder}, the agent's folder; {@code sluice.home}, the instance's.
 */
public final class Generations {
  /** Milliseconds by which a position file may be behind the time at which it was written. */
  private static final long POSITIONS_LAG_MS = 5_000;
  /** The pause after a write that failed: each of many files asks for one. */
  private static final long PAUSE_NS = 1_000_000_000;

  private static final Gson GSON = new GsonBuilder().disableHtmlEscaping().setPrettyPrinting().create();

  /** What is known of a name. The content's first {@code bytes} bytes have the hash {@code sha256}. */
  public static final class Entry {
    public final int generation;
    public final long since; // ms since the epoch; 0 of generation 0
    public final int bytes;
    public final String sha256;
    final int last; // the highest number that was given to a content of this name; 0: it is `generation`

    public Entry(int generation, long since, int bytes, String sha256) {
      this(generation, since, bytes, sha256, generation);
    }

    private Entry(int generation, long since, int bytes, String sha256, int last) {
      this.generation = generation;
      this.since = since;
      this.bytes = bytes;
      this.sha256 = sha256;
      this.last = last;
    }

    /** This content while a number up to this one was given to another content of the name. */
    private Entry given(int number) {
      return new Entry(generation, since, bytes, sha256, Math.max(number, Math.max(last, generation)));
    }
  }

  /** What the agent's counters say of this: under SOURCE, so its failures raise the source's alert. */
  public interface Counters {
    String getType();

    long getEventReadFail();
  }

  private final String home;
  private final Path file;
  private final Path positions;
  private Map<String, Entry> entries;
  private volatile long failures;
  private IOException failure;
  private long failedAt;

  private Generations(Path folder, String home) throws IOException {
    this.home = home;
    this.file = folder.resolve("generations.json");
    this.positions = folder.resolve("position.json");
    this.entries = read(file);
  }

  /** Those of this process's agent, which shows how often they could not be written. */
  public static Generations ofAgent() throws IOException {
    Generations made = new Generations(Path.of(System.getProperty("sluice.folder")), System.getProperty("sluice.home"));
    LocalMetrics.show("source", "generations", Counters.class, new Counters() {
      @Override
      public String getType() {
        return "SOURCE";
      }

      @Override
      public long getEventReadFail() {
        return made.failures;
      }
    });
    return made;
  }

  /** A file's name in the records: relative to the instance's home where it lies below it. */
  public static String name(String home, String path) {
    String folder = home.endsWith("/") ? home : home + "/";
    return path.startsWith(folder) ? path.substring(folder.length()) : path;
  }

  /** The entry of a path; null for one that no line was ever sent from. */
  public synchronized Entry of(String path) {
    return entries.get(name(home, path));
  }

  /** The number of the path's next generation; it is free until an entry or {@link #give} has it. */
  public synchronized int next(String path) {
    Entry known = of(path);
    return known == null ? 1 : Math.max(known.generation, known.last) + 1;
  }

  /** Set these paths' entries; they are on the disk when this returns. */
  public synchronized void put(Map<String, Entry> changes) throws IOException {
    Map<String, Entry> changed = new TreeMap<>(entries);
    changes.forEach((path, entry) -> {
      Entry known = of(path);
      changed.put(name(home, path), known == null ? entry : entry.given(Math.max(known.last, known.generation)));
    });
    write(changed);
  }

  /** Give the path's next number to a content that has the name no longer; it is on the disk when this returns. */
  public synchronized int give(String path) throws IOException {
    int number = next(path);
    Entry known = of(path);
    Map<String, Entry> changed = new TreeMap<>(entries);
    changed.put(name(home, path), (known == null ? new Entry(0, 0, 0, "") : known).given(number));
    write(changed);
    return number;
  }

  private void write(Map<String, Entry> changed) throws IOException {
    if (failure != null && System.nanoTime() - failedAt < PAUSE_NS) {
      throw new IOException(failure);
    }
    try {
      replace(changed);
      entries = changed;
      failure = null;
    } catch (IOException error) {
      failures++;
      failure = error;
      failedAt = System.nanoTime();
      throw error;
    }
  }

  private void replace(Map<String, Entry> changed) throws IOException {
    Path fresh = file.resolveSibling("." + file.getFileName());
    ByteBuffer text = StandardCharsets.UTF_8.encode(GSON.toJson(changed));
    try (FileChannel out = FileChannel.open(
        fresh, StandardOpenOption.WRITE, StandardOpenOption.CREATE, StandardOpenOption.TRUNCATE_EXISTING)) {
      while (text.hasRemaining()) {
        out.write(text);
      }
      out.force(true);
    }
    Files.move(fresh, file, StandardCopyOption.ATOMIC_MOVE);
    try (FileChannel folder = FileChannel.open(file.getParent())) {
      folder.force(true); // or a power cut could bring the old file back
    }
  }

  /** Whether the position file may be older than the generation: then its positions are of the one before. */
  public boolean newerThanPositions(Entry entry) throws IOException {
    try {
      return Files.getLastModifiedTime(positions).toMillis() <= entry.since + POSITIONS_LAG_MS;
    } catch (NoSuchFileException none) {
      return true;
    }
  }

  private static Map<String, Entry> read(Path file) throws IOException {
    try {
      String text = Files.readString(file);
      Map<String, Entry> found = GSON.fromJson(text, new TypeToken<TreeMap<String, Entry>>() {}.getType());
      if (found == null || found.containsValue(null)) {
        throw new JsonParseException("an entry is empty");
      }
      return found;
    } catch (NoSuchFileException none) {
      return new TreeMap<>();
    } catch (JsonParseException damaged) {
      throw new IOException(
          file + " is damaged: restore it from a backup; without it, lines of names that were used again would be"
              + " taken for doubles", damaged);
    }
  }
}
