import com.google.gson.Gson;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Set;
import org.apache.kafka.clients.producer.Partitioner;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;

/** The partitions of keys. Arguments: how many there are; the partitioner; the keys as a JSON array of base64. */
public final class Partitions {
  public static void main(String[] given) throws Exception {
    Node node = new Node(0, "localhost", 9092);
    Node[] nodes = {node};
    List<PartitionInfo> parts = new ArrayList<>();
    for (int number = 0; number < Integer.parseInt(given[0]); number++) {
      parts.add(new PartitionInfo("logs", number, node, nodes, nodes));
    }
    Cluster cluster = new Cluster("one", List.of(node), parts, Set.of(), Set.of());
    Partitioner partitioner = (Partitioner) Class.forName(given[1]).getDeclaredConstructor().newInstance();
    List<Integer> found = new ArrayList<>();
    for (String text : new Gson().fromJson(given[2], String[].class)) {
      byte[] key = text == null ? null : Base64.getDecoder().decode(text);
      String asFlumeHasIt = key == null ? null : new String(key, StandardCharsets.UTF_8);
      found.add(partitioner.partition("logs", asFlumeHasIt, key, new byte[0], new byte[0], cluster));
    }
    System.out.println(new Gson().toJson(found));
  }
}
