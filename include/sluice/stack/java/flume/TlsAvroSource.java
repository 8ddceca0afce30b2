package sluice.flume;

import java.util.Optional;
import javax.net.ssl.SSLEngine;
import org.apache.flume.Context;
import org.apache.flume.source.AvroSource;

/** Flume's Avro source over {@link Tls}: Flume's own TLS cannot ask a client for a certificate. */
public class TlsAvroSource extends AvroSource {
  private Tls tls;

  @Override
  public void configure(Context context) {
    super.configure(context);
    tls = new Tls(context.getString("identity"), context.getString("trust"));
  }

  @Override
  protected Optional<SSLEngine> getSslEngine(boolean useClientMode) {
    return Optional.of(tls.server());
  }
}
