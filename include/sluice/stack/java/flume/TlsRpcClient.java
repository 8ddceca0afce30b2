package sluice.flume;

import io.netty.channel.Channel;
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
 * <p>{@code hostname} is the collector's name, and {@code addresses} a file with the address of each. A client that has
 * failed, or whose collector has closed the connection and gone to another address, is no longer active. The sink makes
 * another one, which reads the file again: so an edge follows a collector to another host while it runs.
 */
public class TlsRpcClient extends AbstractRpcClient {
  private String name;
  private Path addresses;
  private String host;
  private NettyTransceiver transceiver;
  private AvroSourceProtocol.Callback collector;
  private volatile Channel connection;
  private volatile boolean active;

  @Override
  public void configure(Properties given) {
    name = given.getProperty("hostname");
    addresses = Path.of(given.getProperty("addresses"));
    host = address();
    int port = Integer.parseInt(given.getProperty("port"));
    batchSize = parseBatchSize(given);
    connectTimeout = Long.parseLong(given.getProperty("connect-timeout"));
    requestTimeout = Long.parseLong(given.getProperty("request-timeout"));
    Tls tls = new Tls(given.getProperty("identity"), given.getProperty("trust"));
    try {
      transceiver = new NettyTransceiver(new InetSocketAddress(host, port), (int) connectTimeout, channel -> {
        channel.pipeline().addFirst("tls", new SslHandler(tls.client(host, port)));
        connection = channel;
      });
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
    // Avro opens a closed connection again at the next batch, but to the old address.
    return active && (connection.isOpen() || host.equals(address()));
  }

  @Override
  public void close() {
    active = false;
    if (transceiver != null) {
      transceiver.close();
    }
  }

  private String address() {
    Properties known = new Properties();
    try (Reader in = Files.newBufferedReader(addresses)) {
      known.load(in);
    } catch (IOException error) {
      throw new FlumeException("the address of " + name + " cannot be read", error);
    }
    String found = known.getProperty(name);
    if (found == null) {
      throw new FlumeException(addresses + " has no address of " + name);
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
