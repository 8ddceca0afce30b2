package sluice.flume;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Supplier;
import javax.net.ssl.SSLEngine;
import org.apache.flume.Context;
import org.apache.flume.source.AvroSource;
import org.apache.flume.source.avro.AvroFlumeEvent;
import org.apache.flume.source.avro.Status;

/**
 * Flume's Avro source over {@link Tls}: Flume's own TLS cannot ask a client for a certificate.
 *
 * <p>While the file {@code hold} exists it refuses every batch, so the edges send to another collector. A batch is
 * counted under SOURCE.taking before the file is looked for: once the file is there and the count is 0, nothing more
 * comes into the channel.
 */
public class TlsAvroSource extends AvroSource {
  private final AtomicInteger taking = new AtomicInteger();
  private Tls tls;
  private Path hold;

  /** Under SOURCE.taking in the agent's counters. */
  public interface Counters {
    String getType();

    /** The batches that were received and are neither in the channel nor refused yet. */
    int getTaking();
  }

  public TlsAvroSource() {
    LocalMetrics.show("source", "taking", Counters.class, new Counters() {
      @Override
      public String getType() {
        return "SOURCE";
      }

      @Override
      public int getTaking() {
        return taking.get();
      }
    });
  }

  @Override
  public void configure(Context context) {
    super.configure(context);
    tls = new Tls(context.getString("identity"), context.getString("trust"));
    hold = Path.of(context.getString("hold"));
  }

  @Override
  public Status append(AvroFlumeEvent event) {
    return unlessHeld(() -> super.append(event));
  }

  @Override
  public Status appendBatch(List<AvroFlumeEvent> events) {
    return unlessHeld(() -> super.appendBatch(events));
  }

  @Override
  protected Optional<SSLEngine> getSslEngine(boolean useClientMode) {
    return Optional.of(tls.server());
  }

  private Status unlessHeld(Supplier<Status> take) {
    taking.incrementAndGet();
    try {
      return Files.exists(hold) ? Status.FAILED : take.get();
    } finally {
      taking.decrementAndGet();
    }
  }
}
