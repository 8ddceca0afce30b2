package sluice.sql;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.util.HexFormat;
import java.util.regex.Pattern;
import javax.crypto.SecretKeyFactory;
import javax.crypto.spec.PBEKeySpec;
import javax.security.sasl.AuthenticationException;
import org.apache.hive.service.auth.PasswdAuthenticationProvider;
import org.apache.hive.service.cli.session.SessionManager;

/**
 * Checks passwords against the instance's file of users. {@code sluice users} writes the file, and each log-in reads
 * it: {@code {"ann": {"role": name, "generation": hex, "salt": hex, "rounds": n, "hash": hex of PBKDF2 with
 * HMAC-SHA-256}, ...}}.
 *
 * <p>Whoever logs in by an identity provider or a directory has {@code origin} there, and a password only from time to
 * time: it ends at {@code until}, in seconds since the epoch, and with it what it opened.
 *
 * <p>Guesses are limited by source ({@link Throttle}), and hashes at a time ({@link Turns}).
 */
public final class Passwords implements PasswdAuthenticationProvider {
  private static final Path FILE = Path.of(System.getProperty("sluice.users"));
  private static final Pattern NAME = Pattern.compile("[a-z][a-z0-9._-]{0,39}");
  private static final String SERVICE = "service";
  private static final String WRONG = "the user or the password is wrong";
  private static final String BUSY = "too many log-ins at once: try again in a second";
  private static final Throttle THROTTLE = new Throttle(() -> System.nanoTime() / 1_000_000);
  private static final Turns TURNS = new Turns();
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final JsonNode NOBODY =
      JSON.createObjectNode().put("salt", "00".repeat(16)).put("rounds", 600_000).put("hash", "00".repeat(32));

  /**
   * Raises an AuthenticationException unless the password is the user's. The client's address is that of {@link
   * SessionManager#getIpAddress()}.
   */
  @Override
  public void Authenticate(String user, String password) throws AuthenticationException {
    JsonNode known = knownAs(user);
    if (known != null && known.get("role").asText().equals(SERVICE)) {
      // A secret of 32 random bytes needs no throttle, and a throttle would let any stranger lock the platform out.
      if (!isRight(known, password)) {
        throw new AuthenticationException(WRONG);
      }
      return;
    }
    String source = String.valueOf(SessionManager.getIpAddress());
    String name = user != null && NAME.matcher(user).matches() ? user : ""; // nobody has another name
    refuse(THROTTLE.wait(source, name));
    try {
      if (!TURNS.begin(source, THROTTLE.knows(source, name))) {
        throw new AuthenticationException(BUSY);
      }
    } catch (InterruptedException stopped) {
      Thread.currentThread().interrupt();
      throw new AuthenticationException(BUSY);
    }
    try {
      refuse(THROTTLE.take(source, name));
      // Without a password a hash is computed as well, so that the time does not tell who exists.
      boolean has = known != null && known.has("hash") && !isOver(known);
      if (!isRight(has ? known : NOBODY, password) || !has) {
        throw new AuthenticationException(WRONG);
      }
      THROTTLE.passed(source, name);
    } finally {
      TURNS.end(source);
    }
  }

  /**
   * What changes when the user gets another password or role, or when another person gets the name; empty for a name
   * that is not in the file, and for one whose password has ended. A connection that logged in with another generation
   * is over.
   */
  static String generationOf(String user) {
    try {
      JsonNode known = knownAs(user);
      return known == null || isOver(known) ? "" : known.path("generation").asText();
    } catch (AuthenticationException unreadable) {
      return "";
    }
  }

  private static boolean isOver(JsonNode known) {
    return known.has("origin") && known.path("until").asLong() <= System.currentTimeMillis() / 1000;
  }

  private static void refuse(long millis) throws AuthenticationException {
    if (millis > 0) {
      throw new AuthenticationException(
          "too many wrong passwords from here: wait " + (millis + 999) / 1000 + " s");
    }
  }

  private static JsonNode knownAs(String user) throws AuthenticationException {
    try {
      return user == null ? null : JSON.readTree(FILE.toFile()).get(user);
    } catch (IOException error) {
      throw new AuthenticationException("users cannot be read", error);
    }
  }

  private static boolean isRight(JsonNode known, String password) throws AuthenticationException {
    if (password == null) {
      return false;
    }
    try {
      byte[] wanted = HexFormat.of().parseHex(known.get("hash").asText());
      byte[] salt = HexFormat.of().parseHex(known.get("salt").asText());
      int rounds = known.get("rounds").asInt();
      PBEKeySpec key = new PBEKeySpec(password.toCharArray(), salt, rounds, 8 * wanted.length);
      byte[] found = SecretKeyFactory.getInstance("PBKDF2WithHmacSHA256").generateSecret(key).getEncoded();
      return MessageDigest.isEqual(found, wanted);
    } catch (GeneralSecurityException error) {
      throw new AuthenticationException("users cannot be read", error);
    }
  }
}
