package sluice.sql;

import java.time.DateTimeException;
import java.time.ZoneId;
import java.util.Map;
import java.util.Set;
import java.util.regex.Pattern;

/**
 * What a session is opened with: the database and the time zone, and nothing else.
 *
 * <p>Hive would act on any other key: {@code set:system:} sets a property of the whole process, {@code set:metaconf:}
 * one of the metastore, {@code hive.server2.proxy.user} makes another user of this one.
 */
record Opening(String database, String zone) {
  private static final String ZONE = "spark.sql.session.timeZone";
  private static final String DATABASE = "use:database";
  private static final Pattern NAME = Pattern.compile("[A-Za-z0-9_]{1,128}");

  /** What drivers send by themselves. Nothing here depends on it, so it is not passed on. */
  private static final Set<String> IGNORED =
      Set.of("hive.server2.thrift.resultset.default.fetch.size", "hive.server2.thrift.client.user");

  /** Raises a Refused that names the key and the remedy. */
  static Opening of(Map<String, String> given) throws Refused {
    String database = null;
    String zone = null;
    for (Map.Entry<String, String> each : given == null ? Map.<String, String>of().entrySet() : given.entrySet()) {
      String key = each.getKey();
      String name = key == null ? "" : key.replaceFirst("^set:(hiveconf:)?", "");
      if (DATABASE.equals(key)) {
        database = databaseOf(each.getValue());
      } else if (name.equals(ZONE)) {
        zone = zoneOf(each.getValue());
      } else if (!IGNORED.contains(name)) {
        throw new Refused(
            "the setting " + Text.shown(key, 100) + " is not allowed: a session may be opened with a database ("
                + DATABASE + ") and a time zone (" + ZONE + ") only; leave it out");
      }
    }
    return new Opening(database, zone);
  }

  private static String databaseOf(String name) throws Refused {
    if (name == null || !NAME.matcher(name).matches()) {
      throw new Refused(
          "the database " + Text.shown(name, 100) + " is not allowed: give a name of letters, digits and _");
    }
    return name;
  }

  private static String zoneOf(String zone) throws Refused {
    try {
      if (zone != null) {
        return ZoneId.of(zone).getId();
      }
    } catch (DateTimeException unknown) {
      // refused below
    }
    throw new Refused("the time zone " + Text.shown(zone, 100) + " is unknown: give one such as UTC or Europe/Berlin");
  }
}
