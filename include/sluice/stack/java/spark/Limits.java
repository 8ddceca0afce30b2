package sluice.sql;

import org.apache.spark.SparkConf;

/**
 * What one statement, one user and one stranger may take: the settings {@code sql} of include/settings.yaml, each as
 * {@code spark.sluice.sql.<name>}.
 */
record Limits(
    String owner,
    int statementSeconds,
    int statementBytes,
    int nesting,
    int values,
    long resultRows,
    long resultBytes,
    int statements,
    int statementsOfUser,
    int waitSeconds,
    int connections,
    int connectionsOfUser,
    int logins,
    int loginSeconds,
    int requestBytes) {
  private static final String SETTING = "spark.sluice.sql.";

  static Limits of(SparkConf conf) {
    return new Limits(
        conf.get(SETTING + "owner"),
        integer(conf, "statement_seconds"),
        integer(conf, "statement_bytes"),
        integer(conf, "nesting"),
        integer(conf, "values"),
        Long.parseLong(conf.get(SETTING + "result_rows")),
        Long.parseLong(conf.get(SETTING + "result_bytes")),
        integer(conf, "statements"),
        integer(conf, "statements_of_user"),
        integer(conf, "wait_seconds"),
        integer(conf, "connections"),
        integer(conf, "connections_of_user"),
        integer(conf, "logins"),
        integer(conf, "login_seconds"),
        integer(conf, "request_bytes"));
  }

  /** The platform's own user does the platform's work, which must end: only the bounds of sizes hold for it. */
  boolean isOwner(String user) {
    return owner.equals(user);
  }

  private static int integer(SparkConf conf, String name) {
    return Integer.parseInt(conf.get(SETTING + name));
  }
}
