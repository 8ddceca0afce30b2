package sluice.flume;

import java.util.Arrays;
import java.util.Map;
import org.apache.kafka.clients.producer.Partitioner;
import org.apache.kafka.clients.producer.RoundRobinPartitioner;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.utils.Utils;

/**
 * Gives a file's stretches to the partitions in turn, from one on that its name decides.
 *
 * <p>So a busy file loads all partitions evenly, and a stretch always comes into the same one. Records whose key is not
 * that of a {@link Blocks block} go where Kafka itself would send them, and those without a key to all in turn.
 */
public final class StretchPartitioner implements Partitioner {
  private static final int MOST_DIGITS = 18; // what a long holds in any case

  private final RoundRobinPartitioner keyless = new RoundRobinPartitioner();

  @Override
  public void configure(Map<String, ?> settings) {
    keyless.configure(settings);
  }

  @Override
  public void close() {
    keyless.close();
  }

  @Override
  public int partition(String topic, Object key, byte[] keyBytes, Object value, byte[] valueBytes, Cluster cluster) {
    if (keyBytes == null) {
      return keyless.partition(topic, key, keyBytes, value, valueBytes, cluster);
    }
    int count = cluster.partitionsForTopic(topic).size();
    int name = nameLength(keyBytes);
    if (name < 0) {
      return Utils.toPositive(Utils.murmur2(keyBytes)) % count;
    }
    long first = Utils.murmur2(Arrays.copyOf(keyBytes, name));
    return Math.floorMod(first + stretch(keyBytes, name + 1), count);
  }

  /** How many bytes host NUL file have, if a NUL and the number of a stretch follow; else -1. */
  private static int nameLength(byte[] key) {
    int at = key.length;
    while (at > 0 && key[at - 1] >= '0' && key[at - 1] <= '9') {
      at--;
    }
    int digits = key.length - at;
    if (digits == 0 || digits > MOST_DIGITS || at == 0 || key[at - 1] != Blocks.SEPARATOR) {
      return -1;
    }
    int separators = 0;
    for (int i = 0; i < at - 1; i++) {
      separators += key[i] == Blocks.SEPARATOR ? 1 : 0;
    }
    return separators == 1 ? at - 1 : -1;
  }

  private static long stretch(byte[] key, int at) {
    long number = 0;
    for (int i = at; i < key.length; i++) {
      number = 10 * number + key[i] - '0';
    }
    return number;
  }
}
