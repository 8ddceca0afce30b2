package sluice.flume;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
import org.apache.flume.ChannelException;
import org.apache.flume.Context;
import org.apache.flume.Event;
import org.apache.flume.FlumeException;
import org.apache.flume.interceptor.Interceptor;

/**
 * Gives each block of lines of an edge agent its identity, and lets the agent's input be stopped.
 *
 * <p>Headers: {@code host}; {@code src_file}, which TAILDIR set to an absolute path, made relative to {@code home}
 * where it lies below it, so that an instance may be moved, and for a later {@link Generations generation} of the file
 * followed by {@code #} and its number ({@code #} is in no name that can be followed); {@code key}, which names the
 * {@link Blocks stretch} of the file. {@code byteoffset}, that of the first byte, is there already. {@code mac} proves
 * that host, file and offset are those of this block: {@code include/sluice/transmission/mac.py} says how it is made,
 * and checks it.
 *
 * <p>While the file {@code hold} exists every batch is refused. TAILDIR then neither commits its position nor reads
 * on, the channel drains, and the agent can be stopped with nothing in its memory.
 */
public final class Identity implements Interceptor {
  private static final int MAC_BYTES = 18;

  private final String host;
  private final String home;
  private final Path hold;
  private final Mac mac; // used by the one thread of the source

  private Identity(String host, String home, Path hold, Mac mac) {
    this.host = host;
    this.mac = mac;
    this.home = home;
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
    String generation = headers.remove("generation"); // of `TailFile`, from the second on
    String file = Generations.name(home, headers.get("src_file"));
    file = generation == null ? file : file + "#" + generation;
    String offset = headers.get("byteoffset");
    headers.put("src_file", file);
    headers.put("host", host);
    headers.put("key", Blocks.key(host, file, Long.parseLong(offset)));
    headers.put("mac", mac(file, offset, event.getBody()));
    return event;
  }

  private String mac(String file, String offset, byte[] block) {
    mac.update((host + '\0' + file + '\0' + offset + '\0').getBytes(StandardCharsets.UTF_8));
    return Base64.getUrlEncoder().encodeToString(Arrays.copyOf(mac.doFinal(block), MAC_BYTES));
  }

  /** With the key in that file. */
  static Mac keyed(Path file) {
    try {
      byte[] key = Files.readString(file).strip().getBytes(StandardCharsets.UTF_8);
      Mac made = Mac.getInstance("HmacSHA256");
      made.init(new SecretKeySpec(key, made.getAlgorithm()));
      return made;
    } catch (IOException | IllegalArgumentException | GeneralSecurityException unusable) {
      throw new FlumeException("no key for identities in " + file + ": `sluice up` makes one", unusable);
    }
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
          Path.of(context.getString("hold")),
          keyed(Path.of(context.getString("key"))));
    }
  }
}
