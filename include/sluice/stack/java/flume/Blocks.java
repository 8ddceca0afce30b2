package sluice.flume;

/**
 * The measures of what is sent: blocks of lines, none across a stretch of its file.
 *
 * <p>A stretch is a fixed length of a file; a line belongs to the one with its first byte. A block is consecutive
 * complete lines of one stretch, joined by newlines. Stretches decide the partitions in Kafka ({@link
 * StretchPartitioner}), so copies of a line meet however they were cut into blocks.
 */
public final class Blocks {
  /** A block's body at most; a single longer line is a block of its own. */
  public static final int BYTES = 64 << 10;

  public static final int STRETCH = 256 << 10;

  static final char SEPARATOR = '\0';

  private Blocks() {}

  /** Where the stretch ends that has the byte at this offset. */
  public static long stretchEnd(long offset) {
    return (offset / STRETCH + 1) * STRETCH;
  }

  /** The key in Kafka of the block that begins at this offset: host NUL file NUL number of the stretch. */
  static String key(String host, String file, long offset) {
    return host + SEPARATOR + file + SEPARATOR + offset / STRETCH;
  }
}
