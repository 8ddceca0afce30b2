package sluice.flume;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Cuts a file into {@link Blocks blocks}.
 *
 * <p>Where a block ends is searched from its limit backwards, so most bytes are only copied. What was read and not taken
 * is not kept, but read again at the next look: thousands of files share one window of memory. Of a line that is longer
 * than a block it is remembered how far it was searched for its end, so it, too, is read in linear time.
 *
 * <p>A line over {@code sluice.maxLine} bytes is cut to them. Only one thread may read: that of the agent's source.
 */
public final class BlockReader {
  private static final Logger LOG = LoggerFactory.getLogger(BlockReader.class);
  private static final int MAX_LINE = Integer.getInteger("sluice.maxLine", (16 << 20) - (16 << 10));
  private static final byte[] WINDOW = new byte[1 << 20];

  /** Lines and the offset of their first byte; {@code body} is without the last line's newline. */
  public static final class Block {
    public final long offset;
    public final byte[] body;

    Block(long offset, byte[] body) {
      this.offset = offset;
      this.body = body;
    }
  }

  private final String path;
  private final FileChannel file;
  private long position; // where the next line begins
  private long searched; // there is no newline between position and here

  private long from; // the window has the file's bytes from here
  private int filled; // the bytes that it has
  private boolean ended; // and these are the file's last

  public BlockReader(String path, FileChannel file) {
    this.path = path;
    this.file = file;
  }

  /** Where the next line begins. */
  public long position() {
    return position;
  }

  /** Read on from the line that begins there. */
  public void seek(long lineBegin) {
    position = searched = lineBegin;
  }

  /**
   * The next blocks, up to `most`; none is added once they have `bytes` bytes.
   *
   * @param beginning whether the beginning of a line at the file's end is taken for the line
   */
  public List<Block> read(int most, int bytes, boolean beginning) throws IOException {
    List<Block> found = new ArrayList<>();
    filled = 0; // the file may have other content by now
    for (long taken = 0; found.size() < most && taken < bytes; ) {
      Block block = next(beginning);
      if (block == null) {
        break;
      }
      found.add(block);
      taken += block.body.length;
    }
    return found;
  }

  private Block next(boolean beginning) throws IOException {
    int wanted = Blocks.BYTES + 1; // with the last newline
    if (searched - position >= wanted) {
      return line(beginning);
    }
    if (filled == 0 || position + wanted > from + filled && !ended) {
      fill(position);
    }
    int begin = (int) (position - from);
    int length = Math.min(wanted, filled - begin);
    int end = end(begin, length);
    if (end >= 0) {
      Block block = new Block(position, Arrays.copyOfRange(WINDOW, begin, begin + end));
      seek(position + end + 1);
      return block;
    }
    searched = Math.max(searched, position + length);
    return length < wanted && !beginning ? null : line(beginning);
  }

  /** How many bytes the next block has, if it has less than {@code length}; -1 where not even a line ends. */
  private int end(int begin, int length) {
    // The line with the stretch's last byte is the stretch's last line.
    int last = (int) Math.min(Blocks.stretchEnd(position) - 1 - position, length);
    for (int i = last; i < length; i++) {
      if (WINDOW[begin + i] == '\n') {
        return i;
      }
    }
    int unsearched = (int) Math.min(searched - position, length);
    for (int i = last - 1; i >= unsearched; i--) {
      if (WINDOW[begin + i] == '\n') {
        return i;
      }
    }
    return -1;
  }

  /** The next line as a block of its own; null where it has no end. */
  private Block line(boolean orItsBeginning) throws IOException {
    while (true) {
      fill(searched);
      if (filled == 0) {
        return orItsBeginning && searched > position ? cut(searched, 0) : null;
      }
      for (int i = 0; i < filled; i++) {
        if (WINDOW[i] == '\n') {
          return cut(from + i, 1);
        }
      }
      searched = from + filled;
    }
  }

  /** The line that ends there; null if the file became shorter. */
  private Block cut(long end, int newline) throws IOException {
    int length = (int) Math.min(end - position, MAX_LINE);
    if (length < end - position) {
      LOG.error("{} at {}: line of {} bytes cut to {}", path, position, end - position, length);
    }
    ByteBuffer body = ByteBuffer.allocate(length);
    while (body.position() < length) {
      body.limit(Math.min(length, body.position() + WINDOW.length)); // as much outside the heap, and no more
      if (file.read(body, position + body.position()) < 0) {
        return null;
      }
    }
    filled = 0;
    Block block = new Block(position, body.array());
    seek(end + newline);
    return block;
  }

  private void fill(long offset) throws IOException {
    from = offset;
    filled = Math.max(file.read(ByteBuffer.wrap(WINDOW), offset), 0);
    ended = filled < WINDOW.length;
  }
}
