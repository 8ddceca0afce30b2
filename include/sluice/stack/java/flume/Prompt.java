package sluice.flume;

import java.util.concurrent.TimeUnit;
import org.apache.flume.Sink.Status;

/**
 * How a sink that found its channel empty goes on: it looks again soon.
 *
 * <p>Told of BACKOFF, Flume's runner of sinks sleeps for a second, then two, up to five, on each of the two tiers: a
 * lone line would be ten seconds old before it came to Kafka.
 */
final class Prompt {
  private static final long PAUSE_MS = 100;

  private Prompt() {}

  /** READY in any case, after a short pause where the channel was empty; BACKOFF where the sink is to stop. */
  static Status again(Status found) {
    if (found == Status.BACKOFF) {
      try {
        TimeUnit.MILLISECONDS.sleep(PAUSE_MS);
      } catch (InterruptedException stopping) {
        Thread.currentThread().interrupt();
        return Status.BACKOFF;
      }
    }
    return Status.READY;
  }
}
