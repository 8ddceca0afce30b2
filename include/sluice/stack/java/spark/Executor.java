package sluice.sql;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import org.apache.spark.executor.CoarseGrainedExecutorBackend;

/** One of the endpoint's executors. It reads the secret that both share: a variable or an argument could be read. */
public final class Executor {
  private Executor() {}

  public static void main(String[] arguments) throws IOException {
    BufferedReader given = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
    System.setProperty(Endpoint.SECRET, given.readLine());
    CoarseGrainedExecutorBackend.main(arguments);
  }
}
