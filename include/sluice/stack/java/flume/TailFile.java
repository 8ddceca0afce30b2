package org.apache.flume.source.taildir;

import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.io.RandomAccessFile;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.flume.Event;
import org.apache.flume.event.EventBuilder;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import sluice.flume.BlockReader;
import sluice.flume.Blocks;
import sluice.flume.Generations;

/**
 * One followed file, in the place of the class of this name in Flume 1.11's TAILDIR source (it comes before the jar in
 * the class path). It differs in six things. The first makes a line cheap; the others decide whether every byte of a
 * file arrives once:
 *
 * <ul>
 *   <li>An event is a {@link Blocks block} of lines. What is there when the agent looks is sent at once, so a line that
 *       comes alone is a block of its own.
 *   <li>A line keeps its carriage return. Flume drops it, and then the end of a line is no longer its offset, its length
 *       and one newline: every line of a file with CRLF would leave a hole.
 *   <li>A long line is read in linear time. Flume copies the line so far for each 8 KiB: 16 MiB took more than a minute.
 *   <li>A batch ends at 8 MiB. Flume counts lines alone, and a batch of long ones did not fit into the memory of
 *       the collectors.
 *   <li>A line over {@code sluice.maxLine} bytes is cut: Kafka would refuse it for ever and nothing behind it would get
 *       through. What is left is far over the statistics' limit and becomes a dead letter; the rest shows as a hole.
 *   <li>A name whose content was replaced begins another {@link Generations generation}, because the offsets begin again.
 *       Blocks of a later one have it in the header {@code generation}.
 * </ul>
 *
 * <p>Content was replaced when a file is shorter than what was read of it, or when its first bytes (1 KiB, or as many as
 * there were) are no longer the same. A new inode alone says nothing: a log that is copied, restored or mirrored has one.
 * The generation is on the disk before its first line is sent, so after a crash the lines have the same identity again;
 * a file for which it cannot be written waits, and the others go on.
 */
public class TailFile {
  private static final Logger LOG = LoggerFactory.getLogger(TailFile.class);
  private static final int BATCH_BYTES = 8 << 20;
  private static final int HEAD = 1 << 10; // the first bytes, by which one content is told from another
  private static final String GENERATION_HEADER = "generation";
  private static final Map<String, TailFile> NEWEST = new ConcurrentHashMap<>(); // by path
  private static Generations generations;

  private RandomAccessFile raf;
  private final String path;
  private final long inode;
  private final Map<String, String> headers;
  private long pos; // up to here the channel has it
  private long lastUpdated;
  private boolean needTail = true;
  private final BlockReader reader;

  private Generations.Entry content;
  private byte[] head; // the first bytes that `content` has the hash of; null before they were compared
  private boolean kept; // on the disk
  private boolean begunAgain; // by this very object: no older position is of this content

  public TailFile(File file, Map<String, String> headers, long inode, long pos) throws IOException {
    this.raf = new RandomAccessFile(file, "r");
    this.path = file.getAbsolutePath();
    this.inode = inode;
    this.headers = headers;
    this.pos = pos;
    this.reader = new BlockReader(path, raf.getChannel());
    updateFilePos(pos);
    recognise();
  }

  public RandomAccessFile getRaf() {
    return raf;
  }

  public String getPath() {
    return path;
  }

  public long getInode() {
    return inode;
  }

  public long getPos() {
    return pos;
  }

  public long getLastUpdated() {
    return lastUpdated;
  }

  public boolean needTail() {
    return needTail;
  }

  public Map<String, String> getHeaders() {
    return headers;
  }

  public long getLineReadPos() {
    return reader.position();
  }

  public void setPos(long pos) {
    this.pos = pos;
  }

  public void setLastUpdated(long lastUpdated) {
    this.lastUpdated = lastUpdated;
  }

  public void setNeedTail(boolean needTail) {
    this.needTail = needTail;
  }

  /** Take over a position from the position file, if it speaks of this very file; 0 from Flume: it became shorter. */
  public boolean updatePos(String path, long inode, long pos) throws IOException {
    if (this.inode != inode || !this.path.equals(path)) {
      return false;
    }
    if (pos == 0 && this.pos > 0) {
      beginAgain();
    } else if (begunAgain || content.generation > 0 && generations.newerThanPositions(content)) {
      LOG.info("{}: position {} may be of the generation before: reading from the beginning", path, pos);
    } else {
      setPos(pos);
      updateFilePos(pos);
      LOG.info("{}: position {}", path, pos);
      if (!kept && pos > 0 && raf.length() >= pos) { // read before there were generations
        isKept();
      }
    }
    return true;
  }

  /** Read on from there. */
  public void updateFilePos(long pos) throws IOException {
    reader.seek(pos);
  }

  /** The next blocks; at the end of the file the beginning of a line only if not {@code backoffWithoutNL}. */
  public List<Event> readEvents(int blocks, boolean backoffWithoutNL, boolean addByteOffset) throws IOException {
    try {
      boolean newest = NEWEST.get(path) == this;
      if (!newest) { // the rest of a file whose name another one has now
        if (!(kept ? sameHead() : isKeptApart(!backoffWithoutNL))) {
          return List.of();
        }
      } else if (!sameHead()) {
        beginAgain();
      }
      List<BlockReader.Block> read = reader.read(blocks, BATCH_BYTES, !backoffWithoutNL);
      if (!read.isEmpty() && newest && !isKept()) {
        updateFilePos(pos);
        return List.of();
      }
      return events(read, addByteOffset);
    } catch (IOException | RuntimeException | Error error) {
      updateFilePos(pos); // Flume would go on behind the lines that it did not get
      throw error;
    }
  }

  private List<Event> events(List<BlockReader.Block> blocks, boolean addByteOffset) {
    List<Event> events = new ArrayList<>(blocks.size());
    for (BlockReader.Block block : blocks) {
      Event event = EventBuilder.withBody(block.body);
      if (addByteOffset) {
        String offset = Long.toString(block.offset);
        event.getHeaders().put(TaildirSourceConfigurationConstants.BYTE_OFFSET_HEADER_KEY, offset);
      }
      if (content.generation > 0) {
        event.getHeaders().put(GENERATION_HEADER, Integer.toString(content.generation));
      }
      events.add(event);
    }
    return events;
  }

  /** Find out which generation of its name this is. */
  private void recognise() throws IOException {
    synchronized (NEWEST) {
      if (generations == null) {
        generations = Generations.ofAgent();
      }
    }
    TailFile before = NEWEST.put(path, this);
    Generations.Entry known = generations.of(path);
    kept = known != null;
    content = kept ? known : new Generations.Entry(0, 0, 0, "");
    if (before != null && before.inode != inode && pos > 0) { // the position is of what this file had before that one
      setPos(0);
      updateFilePos(0);
    }
    if (!sameHead() || before != null && raf.length() < before.pos) {
      beginAgain();
    }
  }

  /** Whether the first bytes are still those of this generation. */
  private boolean sameHead() throws IOException {
    if (content.bytes == 0) {
      return true;
    }
    byte[] now = head(content.bytes);
    if (head == null && hash(now).equals(content.sha256)) {
      head = now; // hashed once, compared from now on
    }
    return Arrays.equals(head, now);
  }

  /** The file's first bytes; fewer if it is shorter. */
  private byte[] head(int bytes) throws IOException {
    byte[] first = new byte[bytes];
    int read = Math.max(raf.getChannel().read(ByteBuffer.wrap(first), 0), 0);
    return read == bytes ? first : Arrays.copyOf(first, read);
  }

  private static String hash(byte[] bytes) {
    try {
      return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(bytes));
    } catch (NoSuchAlgorithmException never) {
      throw new IllegalStateException(never);
    }
  }

  /** Read from the beginning, as the next generation. */
  private void beginAgain() throws IOException {
    int next = generations.next(path); // another file of this name may have begun one, too
    LOG.warn("{}: content was replaced, read up to {}: generation {} begins", path, pos, next);
    NEWEST.put(path, this); // it may have come back to its name
    content = new Generations.Entry(next, System.currentTimeMillis(), 0, "");
    head = null;
    kept = false;
    begunAgain = true;
    setPos(0);
    updateFilePos(0);
    isKept(); // now, so that a crash does not bring the generation before back
  }

  /** Give a file that lost its name before its first line was read a generation of its own; whether it is kept. */
  private boolean isKeptApart(boolean closing) throws IOException {
    TailFile newest = NEWEST.get(path);
    Generations.Entry known = generations.of(path);
    if (known != null && sameBeginning(newest)) { // the other one is a copy
      content = known;
      kept = true;
      return true;
    }
    try {
      content = new Generations.Entry(generations.give(path), System.currentTimeMillis(), 0, "");
      kept = true;
    } catch (IOException error) {
      if (closing) { // it would not be looked at again
        throw error;
      }
      LOG.error("{} waits: which content it has cannot be written", path, error);
    }
    return kept;
  }

  private boolean sameBeginning(TailFile other) throws IOException {
    byte[] ours = head(HEAD);
    byte[] theirs = other.beginning();
    int both = Math.min(ours.length, theirs.length);
    return both > 0 && Arrays.equals(ours, 0, both, theirs, 0, both);
  }

  /** The first bytes, of a file that was closed because nothing came, too; none if another has its name now. */
  private byte[] beginning() throws IOException {
    if (raf != null) {
      return head(HEAD);
    }
    Path named = Path.of(path);
    try (InputStream in = Files.newInputStream(named)) {
      byte[] first = in.readNBytes(HEAD);
      return Long.valueOf(inode).equals(Files.getAttribute(named, "unix:ino")) ? first : new byte[0];
    } catch (NoSuchFileException gone) {
      return new byte[0];
    }
  }

  /**
   * Before lines are sent: have on the disk which content they are of.
   *
   * @return whether it is there; the agent's log and counters have the reason if not, and it is tried again soon
   */
  private boolean isKept() throws IOException {
    int bytes = (int) Math.min(HEAD, reader.position());
    // A file that grows slowly: not for each line.
    if (kept && (content.bytes == HEAD || bytes < HEAD && bytes < 2 * content.bytes)) {
      return true;
    }
    Map<TailFile, byte[]> heads = new HashMap<>();
    Map<String, Generations.Entry> entries = new HashMap<>();
    for (TailFile each : NEWEST.values()) { // all that there are: a write costs more than a thousand heads
      byte[] longer = each.raf == null ? null : each.longerHead();
      if (longer != null) {
        heads.put(each, longer);
        entries.put(each.path, each.entry(longer));
      }
    }
    if (!heads.containsKey(this)) {
      return kept && sameHead(); // its content was replaced a moment ago
    }
    try {
      generations.put(entries);
    } catch (IOException error) {
      LOG.error("{}{}: which content it has cannot be written", path, kept ? "" : " waits", error);
      return kept;
    }
    heads.forEach(TailFile::isOnDisk);
    return true;
  }

  /** The head to be written to the disk now; null if the one that is there will do, or is not of this content. */
  private byte[] longerHead() throws IOException {
    if (kept && content.bytes == HEAD) {
      return null;
    }
    byte[] now = head(HEAD);
    if (now.length == 0 && content.generation == 0 || kept && now.length < HEAD && now.length < 2 * content.bytes) {
      return null;
    }
    boolean same = raf.length() >= pos
        && now.length >= content.bytes
        && (content.bytes == 0 || hash(Arrays.copyOf(now, content.bytes)).equals(content.sha256));
    return same ? now : null;
  }

  private Generations.Entry entry(byte[] head) {
    int generation = kept || content.generation == 0 ? content.generation : generations.next(path);
    return new Generations.Entry(generation, content.since, head.length, head.length == 0 ? "" : hash(head));
  }

  private void isOnDisk(byte[] head) {
    content = generations.of(path);
    this.head = head;
    kept = true;
  }

  public void close() {
    try {
      raf.close();
    } catch (IOException error) {
      LOG.error("{}: cannot be closed", path, error);
    }
    raf = null;
    lastUpdated = System.currentTimeMillis();
  }
}
