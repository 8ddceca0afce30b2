import java.io.BufferedReader;
import java.io.InputStreamReader;
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
import org.apache.flume.source.taildir.TaildirSource;

/**
 * Flume's TAILDIR source with Sluice's classes, one look for each line of the input: it answers with the lines that it
 * found. At the end of the input it stops in order. Arguments: the agent's folder, the instance's home, the files.
 */
public final class FollowFiles {
  public static void main(String[] given) throws Exception {
    MemoryChannel channel = new MemoryChannel();
    channel.configure(new Context(Map.of("capacity", "1000", "transactionCapacity", "1000", "keep-alive", "0")));
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
        "idleTimeout", "3600000",
        "writePosInterval", "3600000")));
    source.start();
    System.out.println("[]");
    BufferedReader orders = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    while (orders.readLine() != null) {
      source.process();
      System.out.println(new Gson().toJson(taken(channel)));
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
      String line = new String(event.getBody(), StandardCharsets.UTF_8);
      found.add(List.of(headers.get("src_file"), headers.get("byteoffset"), line, headers.get("mac")));
    }
    transaction.commit();
    transaction.close();
    return found;
  }
}
