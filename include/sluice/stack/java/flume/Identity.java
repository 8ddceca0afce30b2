package sluice.flume;

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.apache.flume.ChannelException;
import org.apache.flume.Context;
import org.apache.flume.Event;
import org.apache.flume.interceptor.Interceptor;

/**
 * Gives each line of an edge agent its identity, and lets the agent's input be stopped.
 *
 * <p>Headers: {@code host}; {@code src_file}, which TAILDIR set to an absolute path, made relative to {@code home}
 * where it lies below it, so that an instance may be moved; {@code key}, the line's first 64 characters up to a
 * white space. TAILDIR itself adds {@code byteoffset}.
 *
 * <p>While the file {@code hold} exists every batch is refused. TAILDIR then neither commits its position nor reads
 * on, the channel drains, and the agent can be stopped with nothing in its memory.
 */
public final class Identity implements Interceptor {
  private static final int KEY_CHARACTERS = 64;
  private static final int KEY_BYTES = 4 * KEY_CHARACTERS; // in UTF-8

  private final String host;
  private final String home;
  private final Path hold;

  private Identity(String host, String home, Path hold) {
    this.host = host;
    this.home = home.endsWith("/") ? home : home + "/";
    this.hold = hold;
  }

  @Override
  public void initialize() {}

  @Override
  public void close() {}

  @Override
  public List<Event> intercept(List<Event> events) {
    if (Files.exists(hold)) {
      throw new ChannelException("input is held by " + hold);
    }
    events.forEach(this::intercept);
    return events;
  }

  @Override
  public Event intercept(Event event) {
    Map<String, String> headers = event.getHeaders();
    String file = headers.get("src_file");
    if (file.startsWith(home)) {
      file = file.substring(home.length());
      headers.put("src_file", file);
    }
    headers.put("host", host);
    headers.put("key", key(event.getBody()));
    return event;
  }

  /** The longest prefix of at most 64 characters without white space; bytes that are not UTF-8 become U+FFFD. */
  static String key(byte[] line) {
    int end = 0;
    while (end < line.length && end < KEY_BYTES && line[end] != ' ' && !(line[end] >= '\t' && line[end] <= '\r')) {
      end++;
    }
    String key = new String(line, 0, end, StandardCharsets.UTF_8);
    return key.codePointCount(0, key.length()) <= KEY_CHARACTERS
        ? key
        : key.substring(0, key.offsetByCodePoints(0, KEY_CHARACTERS));
  }

  /** Made by Flume from {@code interceptors.<name>.type = sluice.flume.Identity$Builder}. */
  public static final class Builder implements Interceptor.Builder {
    private Context context;

    @Override
    public void configure(Context given) {
      context = given;
    }

    @Override
    public Interceptor build() {
      return new Identity(
          context.getString("host"),
          context.getString("home"),
          Path.of(context.getString("hold")));
    }
  }
}
