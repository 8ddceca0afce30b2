import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import com.google.gson.Gson;
import org.apache.flume.Context;
import org.apache.flume.Event;
import org.apache.flume.Transaction;
import org.apache.flume.channel.ChannelProcessor;
import org.apache.flume.channel.MemoryChannel;
import org.apache.flume.channel.ReplicatingChannelSelector;
import org.apache.flume.instrumentation.util.JMXPollUtil;
import org.apache.flume.source.taildir.TaildirSource;

/**
 * Flume's TAILDIR source with Sluice's classes. For each line "look" of its input it answers with the blocks that it
 * finds, for each other one with all counters. At the end of the input it stops in order. Arguments: the agent's folder, the instance's home, the files,
 * after how many milliseconds a file is idle.
 */
public final class FollowFiles {
  public static void main(String[] given) throws Exception {
    PrintStream answers = System.out;
    System.setOut(System.err); // where the log goes
    MemoryChannel channel = new MemoryChannel();
    channel.configure(new Context(Map.of("capacity", "20000", "transactionCapacity", "20000", "keep-alive", "0")));
    channel.start();
    ReplicatingChannelSelector selector = new ReplicatingChannelSelector();
    selector.setChannels(List.of(channel));
    selector.configure(new Context());
    ChannelProcessor processor = new ChannelProcessor(selector);
    processor.configure(new Context(Map.of(
        "interceptors", "identity",
        "interceptors.identity.type", "sluice.flume.Identity$Builder",
        "interceptors.identity.host", "web1",
        "interceptors.identity.home", given[1],
        "interceptors.identity.hold", given[0] + "/hold",
        "interceptors.identity.key", given[1] + "/secrets/identity")));
    TaildirSource source = new TaildirSource();
    source.setName("files");
    source.setChannelProcessor(processor);
    source.configure(new Context(Map.of(
        "positionFile", given[0] + "/position.json",
        "filegroups", "f1",
        "filegroups.f1", given[2],
        "fileHeader", "true",
        "fileHeaderKey", "src_file",
        "byteOffsetHeader", "true",
        "idleTimeout", given[3],
        "writePosInterval", "3600000")));
    source.start();
    answers.println("[]");
    BufferedReader orders = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String order = orders.readLine(); order != null; order = orders.readLine()) {
      if (order.equals("look")) {
        source.process();
        answers.println(new Gson().toJson(taken(channel)));
      } else {
        answers.println(new Gson().toJson(JMXPollUtil.getAllMBeans()));
      }
    }
    source.stop();
    System.exit(0);
  }

  private static List<List<String>> taken(MemoryChannel channel) {
    List<List<String>> found = new java.util.ArrayList<>();
    Transaction transaction = channel.getTransaction();
    transaction.begin();
    for (Event event = channel.take(); event != null; event = channel.take()) {
      Map<String, String> headers = event.getHeaders();
      String body = new String(event.getBody(), StandardCharsets.ISO_8859_1); // a character for each byte
      found.add(List.of(
          headers.get("src_file"), headers.get("byteoffset"), body, headers.get("mac"), headers.get("key")));
    }
    transaction.commit();
    transaction.close();
    return found;
  }
}
