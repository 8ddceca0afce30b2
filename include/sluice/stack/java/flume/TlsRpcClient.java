package sluice.flume;

import io.netty.handler.ssl.SslHandler;
import java.io.IOException;
import java.io.Reader;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.avro.ipc.CallFuture;
import org.apache.avro.ipc.netty.NettyTransceiver;
import org.apache.avro.ipc.specific.SpecificRequestor;
import org.apache.flume.Event;
import org.apache.flume.EventDeliveryException;
import org.apache.flume.FlumeException;
import org.apache.flume.api.AbstractRpcClient;
import org.apache.flume.source.avro.AvroFlumeEvent;
import org.apache.flume.source.avro.AvroSourceProtocol;
import org.apache.flume.source.avro.Status;

/**
 * Sends events to one {@link TlsAvroSource}; Flume's own client cannot show a certificate.
 *
 * <p>{@code hostname} is the collector's name, and {@code addresses} a file with the address of each. After any failure
 * the client is no longer active, and the sink makes another one, which reads the file again: so an edge follows a
 * collector to another host while it runs.
 */
public class TlsRpcClient extends AbstractRpcClient {
  private NettyTransceiver transceiver;
  private AvroSourceProtocol.Callback collector;
  private volatile boolean active;

  @Override
  public void configure(Properties given) {
    String host = address(given.getProperty("hostname"), given.getProperty("addresses"));
    int port = Integer.parseInt(given.getProperty("port"));
    batchSize = parseBatchSize(given);
    connectTimeout = Long.parseLong(given.getProperty("connect-timeout"));
    requestTimeout = Long.parseLong(given.getProperty("request-timeout"));
    Tls tls = new Tls(given.getProperty("identity"), given.getProperty("trust"));
    try {
      transceiver = new NettyTransceiver(new InetSocketAddress(host, port), (int) connectTimeout,
          channel -> channel.pipeline().addFirst("tls", new SslHandler(tls.client(host, port))));
      collector = SpecificRequestor.getClient(AvroSourceProtocol.Callback.class, transceiver);
    } catch (IOException error) {
      close();
      throw new FlumeException("no connection to the collector at " + host + ":" + port, error);
    }
    active = true;
  }

  @Override
  public void append(Event event) throws EventDeliveryException {
    appendBatch(List.of(event));
  }

  @Override
  public void appendBatch(List<Event> events) throws EventDeliveryException {
    CallFuture<Status> answer = new CallFuture<>();
    try {
      collector.appendBatch(events.stream().map(TlsRpcClient::sent).toList(), answer);
      Status status = answer.get(requestTimeout, TimeUnit.MILLISECONDS);
      if (status != Status.OK) {
        throw new EventDeliveryException("the collector answered " + status);
      }
    } catch (InterruptedException stopping) {
      Thread.currentThread().interrupt();
      throw failed(stopping);
    } catch (IOException | ExecutionException | TimeoutException | RuntimeException error) {
      throw failed(error);
    }
  }

  @Override
  public boolean isActive() {
    return active;
  }

  @Override
  public void close() {
    active = false;
    if (transceiver != null) {
      transceiver.close();
    }
  }

  private static String address(String collector, String file) {
    Properties addresses = new Properties();
    try (Reader in = Files.newBufferedReader(Path.of(file))) {
      addresses.load(in);
    } catch (IOException error) {
      throw new FlumeException("the address of " + collector + " cannot be read", error);
    }
    String found = addresses.getProperty(collector);
    if (found == null) {
      throw new FlumeException(file + " has no address of " + collector);
    }
    return found;
  }

  private EventDeliveryException failed(Exception error) {
    active = false;
    return new EventDeliveryException("the collector did not take a batch", error);
  }

  private static AvroFlumeEvent sent(Event event) {
    Map<CharSequence, CharSequence> headers = new HashMap<>(event.getHeaders());
    return new AvroFlumeEvent(headers, ByteBuffer.wrap(event.getBody()));
  }
}
