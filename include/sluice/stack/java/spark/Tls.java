package sluice.sql;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.FileTime;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLSocket;

/** TLS of the door, if there is to be any: with the certificate in a PKCS #12 file, which may be replaced. */
final class Tls {
  private static final String[] VERSIONS = {"TLSv1.3", "TLSv1.2"};
  private static final String[] SUITES = {
    "TLS_AES_256_GCM_SHA384",
    "TLS_AES_128_GCM_SHA256",
    "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
  };

  /** A formality of the format, the same as of the hosts' files: the file's mode protects it. */
  private static final char[] PASSWORD = "sluice".toCharArray();

  private final Path file;
  private FileTime read;
  private SSLContext context;

  private Tls(Path file) {
    this.file = file;
  }

  /** As the process was told; null without TLS. */
  static Tls ofProcess() {
    String file = System.getProperty("sluice.tls");
    return file == null ? null : new Tls(Path.of(file));
  }

  /** Read the file, which must be there, and load what the first handshake needs. */
  void prepare() throws IOException {
    current().createSSLEngine();
  }

  /** The server's side of TLS on a connection; the handshake has not begun. */
  SSLSocket over(Socket socket) throws IOException {
    SSLSocket secured = (SSLSocket) current().getSocketFactory().createSocket(socket, null, socket.getPort(), true);
    secured.setUseClientMode(false);
    secured.setEnabledProtocols(VERSIONS);
    secured.setEnabledCipherSuites(SUITES);
    return secured;
  }

  private synchronized SSLContext current() throws IOException {
    FileTime changed = Files.getLastModifiedTime(file);
    if (!changed.equals(read)) {
      try {
        KeyStore store = KeyStore.getInstance("PKCS12");
        store.load(new ByteArrayInputStream(Files.readAllBytes(file)), PASSWORD);
        KeyManagerFactory keys = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
        keys.init(store, PASSWORD);
        SSLContext made = SSLContext.getInstance("TLS");
        made.init(keys.getKeyManagers(), null, null);
        context = made;
        read = changed;
      } catch (GeneralSecurityException error) {
        throw new IOException(file + " cannot be used", error);
      }
    }
    return context;
  }
}
