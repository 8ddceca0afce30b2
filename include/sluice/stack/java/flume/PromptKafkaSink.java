package sluice.flume;

import org.apache.flume.EventDeliveryException;
import org.apache.flume.sink.kafka.KafkaSink;

/** Flume's sink to Kafka, which looks at an empty channel again soon: see {@link Prompt}. */
public class PromptKafkaSink extends KafkaSink {
  @Override
  public Status process() throws EventDeliveryException {
    return Prompt.again(super.process());
  }
}
