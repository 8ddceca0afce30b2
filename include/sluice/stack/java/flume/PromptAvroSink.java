package sluice.flume;

import org.apache.flume.EventDeliveryException;
import org.apache.flume.sink.AvroSink;

/** Flume's sink to a collector, which looks at an empty channel again soon: see {@link Prompt}. */
public class PromptAvroSink extends AvroSink {
  @Override
  public Status process() throws EventDeliveryException {
    return Prompt.again(super.process());
  }
}
