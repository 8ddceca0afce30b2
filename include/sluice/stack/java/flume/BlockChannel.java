package org.apache.flume.channel;

import org.apache.flume.Context;
import sluice.flume.LocalMetrics;

/**
 * Flume's memory channel, which also shows how full it is by bytes: of whole blocks of lines it is full long before it
 * holds as many events as it may. It is in Flume's package because Flume keeps the number to itself.
 */
public class BlockChannel extends MemoryChannel {
  /** Under CHANNEL.bytes in the agent's counters. */
  public interface Counters {
    String getType();

    double getChannelFillPercentage();
  }

  private int slots; // Flume's unit of bytes, 100 of them

  @Override
  public void configure(Context context) {
    super.configure(context);
    slots = getBytesRemainingValue();
  }

  @Override
  public synchronized void start() {
    super.start();
    LocalMetrics.show("channel", "bytes", Counters.class, new Counters() {
      @Override
      public String getType() {
        return "CHANNEL";
      }

      @Override
      public double getChannelFillPercentage() {
        return 100.0 * (slots - getBytesRemainingValue()) / slots;
      }
    });
  }
}
