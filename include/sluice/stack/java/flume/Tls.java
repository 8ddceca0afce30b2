package sluice.flume;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLEngine;
import javax.net.ssl.SSLParameters;
import javax.net.ssl.TrustManagerFactory;
import org.apache.flume.FlumeException;

/**
 * TLS in which both sides show a certificate of the instance's own authority.
 *
 * <p>{@code identity} is a PKCS #12 file with this side's key and certificate, {@code trust} one with the authority's
 * certificate. Their password is a formality that the format asks for: the files' mode protects them.
 */
final class Tls {
  private static final char[] PASSWORD = "sluice".toCharArray();

  private final SSLContext context;

  Tls(String identity, String trust) {
    try {
      KeyManagerFactory keys = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
      keys.init(load(identity), PASSWORD);
      TrustManagerFactory authorities = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
      authorities.init(load(trust));
      context = SSLContext.getInstance("TLS");
      context.init(keys.getKeyManagers(), authorities.getTrustManagers(), null);
    } catch (GeneralSecurityException | IOException error) {
      throw new FlumeException("TLS with " + identity + " and " + trust + " cannot be set up", error);
    }
  }

  /** The side that listens: it asks for a certificate, and refuses a client without one of the authority. */
  SSLEngine server() {
    SSLEngine engine = context.createSSLEngine();
    engine.setUseClientMode(false);
    engine.setNeedClientAuth(true);
    return modern(engine);
  }

  /** The side that connects: the other's certificate must be made out to the address that is asked for. */
  SSLEngine client(String host, int port) {
    SSLEngine engine = context.createSSLEngine(host, port);
    engine.setUseClientMode(true);
    SSLParameters parameters = engine.getSSLParameters();
    parameters.setEndpointIdentificationAlgorithm("HTTPS");
    engine.setSSLParameters(parameters);
    return modern(engine);
  }

  private static SSLEngine modern(SSLEngine engine) {
    engine.setEnabledProtocols(new String[] {"TLSv1.3"});
    return engine;
  }

  private static KeyStore load(String file) throws GeneralSecurityException, IOException {
    KeyStore store = KeyStore.getInstance("PKCS12");
    try (InputStream in = Files.newInputStream(Path.of(file))) {
      store.load(in, PASSWORD);
    }
    return store;
  }
}
