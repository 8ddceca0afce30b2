package sluice.sql;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.util.Collections;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.Map;
import javax.crypto.SecretKeyFactory;
import javax.crypto.spec.PBEKeySpec;
import javax.security.sasl.AuthenticationException;
import org.apache.hive.service.auth.PasswdAuthenticationProvider;

/**
 * Checks passwords against the instance's file of users. {@code sluice users} writes the file, and each log-in reads
 * it: {@code {"ann": {"role": name, "salt": hex, "rounds": n, "hash": hex of PBKDF2 with HMAC-SHA-256}, ...}}.
 *
 * <p>After five wrong passwords in a row a person's name is refused for a minute.
 */
public final class Passwords implements PasswdAuthenticationProvider {
  private static final Path FILE = Path.of(System.getProperty("sluice.users"));
  private static final int TRIES = 5;
  private static final long PAUSE_MILLIS = 60_000;
  private static final int NAMES = 10_000;
  private static final String SERVICE = "service";
  private static final String WRONG = "the user or the password is wrong";
  private static final Map<String, Failures> FAILED = Collections.synchronizedMap(new Newest());
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final JsonNode NOBODY =
      JSON.createObjectNode().put("salt", "00".repeat(16)).put("rounds", 600_000).put("hash", "00".repeat(32));

  private record Failures(int count, long last) {}

  /** Forgets the name that failed longest ago when there are too many. */
  private static final class Newest extends LinkedHashMap<String, Failures> {
    @Override
    protected boolean removeEldestEntry(Map.Entry<String, Failures> eldest) {
      return size() > NAMES;
    }
  }

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
    long now = System.currentTimeMillis();
    Failures before = FAILED.getOrDefault(user, new Failures(0, 0));
    if (before.count() >= TRIES && now - before.last() < PAUSE_MILLIS) {
      throw new AuthenticationException("too many wrong passwords: wait a minute");
    }
    // For an unknown name a hash is computed as well, so that the time does not tell who exists.
    if (!isRight(known == null ? NOBODY : known, password) || known == null) {
      FAILED.remove(user);
      FAILED.put(user, new Failures(before.count() + 1, now));
      throw new AuthenticationException(WRONG);
    }
    FAILED.remove(user);
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
