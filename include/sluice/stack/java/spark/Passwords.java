package sluice.sql;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.util.HexFormat;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import javax.crypto.SecretKeyFactory;
import javax.crypto.spec.PBEKeySpec;
import javax.security.sasl.AuthenticationException;
import org.apache.hive.service.auth.PasswdAuthenticationProvider;

/**
 * Checks passwords against the instance's file of users, which {@code sluice users} writes and which is read at each
 * log-in: {@code {"ann": {"salt": hex, "rounds": n, "hash": hex of PBKDF2 with HMAC-SHA-256}, ...}}.
 *
 * <p>After five wrong passwords in a row a name is refused for a minute.
 */
public final class Passwords implements PasswdAuthenticationProvider {
  private static final Path FILE = Path.of(System.getProperty("sluice.users"));
  private static final int TRIES = 5;
  private static final long PAUSE_MILLIS = 60_000;
  private static final Map<String, Failures> FAILED = new ConcurrentHashMap<>();
  private static final ObjectMapper JSON = new ObjectMapper();

  private record Failures(int count, long last) {}

  @Override
  public void Authenticate(String user, String password) throws AuthenticationException {
    Failures before = FAILED.getOrDefault(user, new Failures(0, 0));
    long now = System.currentTimeMillis();
    if (before.count() >= TRIES && now - before.last() < PAUSE_MILLIS) {
      throw new AuthenticationException("too many wrong passwords: wait a minute");
    }
    if (!isRight(user, password)) {
      FAILED.keySet().removeIf(name -> now - FAILED.get(name).last() >= PAUSE_MILLIS);
      FAILED.put(user, new Failures(before.count() + 1, now));
      throw new AuthenticationException("the user or the password is wrong");
    }
    FAILED.remove(user);
  }

  private static boolean isRight(String user, String password) throws AuthenticationException {
    try {
      JsonNode known = JSON.readTree(FILE.toFile()).get(user);
      if (known == null || password == null) {
        return false;
      }
      byte[] wanted = HexFormat.of().parseHex(known.get("hash").asText());
      byte[] salt = HexFormat.of().parseHex(known.get("salt").asText());
      int rounds = known.get("rounds").asInt();
      PBEKeySpec key = new PBEKeySpec(password.toCharArray(), salt, rounds, 8 * wanted.length);
      byte[] found = SecretKeyFactory.getInstance("PBKDF2WithHmacSHA256").generateSecret(key).getEncoded();
      return MessageDigest.isEqual(found, wanted);
    } catch (IOException | GeneralSecurityException error) {
      throw new AuthenticationException("users cannot be read", error);
    }
  }
}
