package sluice.flume;

import java.util.Properties;
import org.apache.flume.EventDeliveryException;
import org.apache.flume.api.RpcClient;
import org.apache.flume.sink.AvroSink;

/**
 * Flume's sink to a collector, which looks at an empty channel again soon: see {@link Prompt}.
 *
 * <p>With {@code identity} (see {@link Tls}) it speaks TLS and shows its certificate.
 */
public class PromptAvroSink extends AvroSink {
  @Override
  protected RpcClient initializeRpcClient(Properties given) {
    if (given.getProperty("identity") == null) {
      return super.initializeRpcClient(given);
    }
    TlsRpcClient client = new TlsRpcClient();
    client.configure(given);
    return client;
  }

  @Override
  public Status process() throws EventDeliveryException {
    return Prompt.again(super.process());
  }
}
