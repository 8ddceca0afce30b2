package sluice.sql;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.file.Path;
import org.apache.spark.sql.SparkSession;

/**
 * Who asks. The role is read from the instance's file of users for each statement, so a change of it or a removal
 * holds from the next statement on, in an open session, too.
 *
 * @param name null while the session is being opened
 * @param role empty for a name that is not in the file
 */
public record Caller(String name, String role) {
  /** The platform's own user. */
  static final String SERVICE = "service";

  static final String VIEWER = "viewer";
  private static final ObjectMapper JSON = new ObjectMapper();

  static Caller of(SparkSession session) {
    String name = Endpoint.userOf(session);
    if (name == null) {
      return new Caller(null, "");
    }
    try {
      JsonNode known = JSON.readTree(Path.of(System.getProperty("sluice.users")).toFile()).get(name);
      return new Caller(name, known == null ? "" : known.get("role").asText());
    } catch (IOException error) {
      throw new SecurityException("the file of users cannot be read: tell whoever runs the platform", error);
    }
  }

  boolean isOwner() {
    return role.equals(SERVICE);
  }

  boolean isOpening() {
    return name == null;
  }

  /** Whether somebody with this role may read log lines: everybody but a viewer. */
  boolean mayReadLines() {
    return switch (role) {
      case SERVICE, "user", "op", "admin" -> true;
      default -> false;
    };
  }
}
