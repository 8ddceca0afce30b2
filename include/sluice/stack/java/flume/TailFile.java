package org.apache.flume.source.taildir;

import java.io.File;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.flume.Event;
import org.apache.flume.event.EventBuilder;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import sluice.flume.Generations;

/**
 * One followed file, in the place of the class of this name in Flume 1.11's TAILDIR source (it comes before the jar in
 * the class path). It differs in five things, which all decide whether every byte of a file arrives once:
 *
 * <ul>
 *   <li>A line keeps its carriage return. Flume drops it, and then the end of a line is no longer its offset, its length
 *       and one newline: every line of a file with CRLF would leave a hole.
 *   <li>A long line is read in linear time. Flume copies the line so far for each 8 KiB: 16 MiB took more than a minute.
 *   <li>A batch ends at 8 MiB. Flume counts lines alone, and a batch of long ones did not fit into the memory of
 *       the collectors.
 *   <li>A line over {@code sluice.maxLine} bytes is cut: Kafka would refuse it for ever and nothing behind it would get
 *       through. What is left is far over the statistics' limit and becomes a dead letter; the rest shows as a hole.
 *   <li>A name whose content was replaced begins another {@link Generations generation}, because the offsets begin again.
 *       Lines of a later one have it in the header {@code generation}.
 * </ul>
 *
 * <p>Content was replaced when a file is shorter than what was read of it, or when its first bytes (1 KiB, or as many as
 * were read) are no longer the same. A new inode alone says nothing: a log that is copied, restored or mirrored has one.
 * The generation is on the disk before its first line is sent, so after a crash the lines have the same identity again.
 */
public class TailFile {
  private static final Logger LOG = LoggerFactory.getLogger(TailFile.class);
  private static final int BLOCK = 64 << 10;
  private static final int BATCH_BYTES = 8 << 20;
  private static final int MAX_LINE = Integer.getInteger("sluice.maxLine", (16 << 20) - (16 << 10));
  private static final int HEAD = 1 << 10; // so many first bytes tell one content from another
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

  private long lineReadPos; // where the next line begins
  private byte[] buffer = new byte[BLOCK]; // the line so far, from `start`, and what was read behind it
  private int start;
  private int end;
  private int scanned; // no newline between start and here
  private long cut; // bytes of the line so far that were left out

  private Generations.Entry content;
  private boolean kept; // on the disk
  private boolean begunAgain; // by this very object: no older position is of this content

  public TailFile(File file, Map<String, String> headers, long inode, long pos) throws IOException {
    this.raf = new RandomAccessFile(file, "r");
    this.path = file.getAbsolutePath();
    this.inode = inode;
    this.headers = headers;
    this.pos = pos;
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
    return lineReadPos;
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
        keep();
      }
    }
    return true;
  }

  /** Read on from there. */
  public void updateFilePos(long pos) throws IOException {
    raf.seek(pos);
    lineReadPos = pos;
    start = end = scanned = 0;
    cut = 0;
  }

  /** The next lines; at the end of the file the beginning of a line only if not {@code backoffWithoutNL}. */
  public List<Event> readEvents(int lines, boolean backoffWithoutNL, boolean addByteOffset) throws IOException {
    try {
      if (NEWEST.get(path) != this) { // the rest of a file whose name another one has now
        if (!kept || !sameHead()) {
          return List.of();
        }
      } else if (!sameHead()) {
        beginAgain();
      }
      List<Event> events = read(lines, backoffWithoutNL, addByteOffset);
      if (!events.isEmpty() && NEWEST.get(path) == this) {
        keep();
      }
      return events;
    } catch (IOException | RuntimeException | Error error) {
      updateFilePos(pos); // Flume would go on behind the lines that it did not get
      throw error;
    }
  }

  private List<Event> read(int lines, boolean backoffWithoutNL, boolean addByteOffset) throws IOException {
    List<Event> events = new ArrayList<>(Math.min(lines, 1024));
    for (long bytes = 0; events.size() < lines && bytes < BATCH_BYTES; ) {
      long offset = lineReadPos;
      byte[] line = readLine(!backoffWithoutNL);
      if (line == null) {
        break;
      }
      Event event = EventBuilder.withBody(line);
      if (addByteOffset) {
        event.getHeaders().put(TaildirSourceConfigurationConstants.BYTE_OFFSET_HEADER_KEY, Long.toString(offset));
      }
      if (content.generation > 0) {
        event.getHeaders().put(GENERATION_HEADER, Integer.toString(content.generation));
      }
      events.add(event);
      bytes += line.length;
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
    return content.bytes == 0 || raf.length() >= content.bytes && head(content.bytes).equals(content.sha256);
  }

  private String head(int bytes) throws IOException {
    byte[] first = new byte[bytes];
    long at = raf.getFilePointer();
    raf.seek(0);
    raf.readFully(first);
    raf.seek(at);
    try {
      return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(first));
    } catch (NoSuchAlgorithmException never) {
      throw new IllegalStateException(never);
    }
  }

  /** Read from the beginning, as the next generation. */
  private void beginAgain() throws IOException {
    Generations.Entry known = generations.of(path); // another file of this name may have begun one, too
    int next = Math.max(content.generation, known == null ? 0 : known.generation) + 1;
    LOG.warn("{}: content was replaced, read up to {}: generation {} begins", path, pos, next);
    Generations.Entry begun = new Generations.Entry(next, System.currentTimeMillis(), 0, "");
    generations.put(path, begun); // first: if this fails, it is tried again
    content = begun;
    kept = begunAgain = true;
    setPos(0);
    updateFilePos(0);
  }

  /** Before lines are sent: have on the disk which content they are of. */
  private void keep() throws IOException {
    int bytes = (int) Math.min(HEAD, lineReadPos);
    // A file that grows slowly: not for each line.
    if (!kept || content.bytes < HEAD && (bytes == HEAD || bytes >= 2 * content.bytes)) {
      Generations.Entry longer = new Generations.Entry(content.generation, content.since, bytes, head(bytes));
      generations.put(path, longer);
      content = longer;
      kept = true;
    }
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

  private byte[] readLine(boolean orItsBeginning) throws IOException {
    while (true) {
      while (scanned < end && buffer[scanned] != '\n') {
        scanned++;
      }
      if (scanned < end) {
        return take(1);
      }
      if (!fill()) {
        return orItsBeginning && end > start ? take(0) : null;
      }
    }
  }

  /** The bytes up to `scanned` as a line, which `newline` bytes end. */
  private byte[] take(int newline) {
    int length = Math.min(scanned - start, MAX_LINE);
    cut += scanned - start - length;
    if (cut > 0) {
      LOG.error("{} at {}: line of {} bytes cut to {}", path, lineReadPos, length + cut, length);
    }
    byte[] line = Arrays.copyOfRange(buffer, start, start + length);
    lineReadPos += length + cut + newline;
    start = scanned = scanned + newline;
    cut = 0;
    return line;
  }

  /** Read on behind `end`; whether there was anything. */
  private boolean fill() throws IOException {
    int length = end - start;
    if (length > MAX_LINE) { // a line that will be cut anyway is not kept
      cut += length - MAX_LINE;
      length = MAX_LINE;
    }
    // Twice the line so far, so that all copying adds up to the line's length; small again after a long one.
    boolean fits = buffer.length >= 2 * length && buffer.length <= Math.max(16 * BLOCK, 4 * length);
    byte[] wider = fits ? buffer : new byte[Math.max(BLOCK, 2 * length)];
    System.arraycopy(buffer, start, wider, 0, length);
    buffer = wider;
    start = 0;
    end = scanned = length;
    int read = raf.read(buffer, end, buffer.length - end);
    end += Math.max(read, 0);
    return read > 0;
  }
}
