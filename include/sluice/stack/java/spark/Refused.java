package sluice.sql;

import org.apache.hive.service.cli.HiveSQLException;

/** A call that is not done; the message is for the one who called, and says what to do instead. */
final class Refused extends HiveSQLException {
  private static final long serialVersionUID = 1L;

  Refused(String message) {
    super(message, "42000");
  }

  /** The reason is known; where in the endpoint it was found is nobody's business. */
  @Override
  public synchronized Throwable fillInStackTrace() {
    return this;
  }
}
