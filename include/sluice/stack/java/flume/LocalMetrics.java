package sluice.flume;

import com.google.gson.Gson;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.management.ManagementFactory;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import javax.management.JMException;
import javax.management.ObjectName;
import javax.management.StandardMBean;
import org.apache.flume.Context;
import org.apache.flume.instrumentation.MonitorService;
import org.apache.flume.instrumentation.util.JMXPollUtil;

/**
 * The JSON of Flume's own {@code http} monitor, which would listen on every interface.
 * -Dflume.monitoring.type=sluice.flume.LocalMetrics -Dflume.monitoring.port=N [-Dflume.monitoring.host=H]
 */
public class LocalMetrics implements MonitorService {
  private HttpServer server;
  private InetSocketAddress address;

  /** Have counters of our own shown beside Flume's, under {@code <their type>.<name>}. */
  public static <T> void show(String kind, String name, Class<T> as, T counters) {
    try {
      ManagementFactory.getPlatformMBeanServer().registerMBean(
          new StandardMBean(counters, as), new ObjectName("org.apache.flume." + kind + ":type=" + name));
    } catch (JMException never) {
      throw new IllegalStateException(never);
    }
  }

  @Override
  public void configure(Context context) {
    address = new InetSocketAddress(context.getString("host", "127.0.0.1"), context.getInteger("port"));
  }

  @Override
  public void start() {
    try {
      server = HttpServer.create(address, 16);
    } catch (IOException error) {
      throw new UncheckedIOException("metrics cannot listen on " + address, error);
    }
    server.createContext("/metrics", exchange -> {
      byte[] body = new Gson().toJson(JMXPollUtil.getAllMBeans()).getBytes(StandardCharsets.UTF_8);
      exchange.getResponseHeaders().set("Content-Type", "application/json");
      exchange.sendResponseHeaders(200, body.length);
      exchange.getResponseBody().write(body);
      exchange.close();
    });
    server.start();
  }

  @Override
  public void stop() {
    if (server != null) {
      server.stop(0);
    }
  }
}
