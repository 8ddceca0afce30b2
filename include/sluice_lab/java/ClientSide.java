package sluice.lab;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/** The assignors that run in the group's leader, called as the consumer calls them. */
final class ClientSide {
    private ClientSide() {}

    static Assignors.Round named(String name) {
        return group -> round(name, group);
    }

    private static ConsumerPartitionAssignor make(String name) {
        return switch (name) {
            case "range" -> new RangeAssignor();
            case "roundrobin" -> new RoundRobinAssignor();
            case "sticky" -> new StickyAssignor();
            case "cooperative-sticky" -> new CooperativeStickyAssignor();
            default -> throw new IllegalArgumentException("no assignor " + name);
        };
    }

    private static Map<String, List<TopicPartition>> round(String name, Assignors.Group group) {
        Map<String, Subscription> subscriptions = new HashMap<>();
        group.members().forEach((id, member) -> subscriptions.put(id, subscription(name, id, member)));
        Map<String, List<TopicPartition>> found = new TreeMap<>();
        make(name)
                .assign(cluster(group), new GroupSubscription(subscriptions))
                .groupAssignment()
                .forEach((id, assignment) -> found.put(id, new ArrayList<>(assignment.partitions())));
        return found;
    }

    /** What the member sends: its own assignor remembers what it was given last. */
    private static Subscription subscription(String name, String id, Assignors.Member member) {
        ConsumerPartitionAssignor own = make(name);
        if (!member.owned().isEmpty()) {
            own.onAssignment(
                    new Assignment(member.owned()),
                    new ConsumerGroupMetadata("g", member.generation(), id, Optional.empty()));
        }
        return new Subscription(
                member.topics(),
                own.subscriptionUserData(Set.copyOf(member.topics())),
                member.owned(),
                member.generation(),
                Optional.empty());
    }

    private static Cluster cluster(Assignors.Group group) {
        Node node = new Node(1, "127.0.0.1", 9092);
        Node[] nodes = {node};
        List<PartitionInfo> infos = new ArrayList<>();
        group.partitions().forEach((topic, count) -> {
            for (int number = 0; number < count; number++) {
                infos.add(new PartitionInfo(topic, number, node, nodes, nodes));
            }
        });
        return new Cluster("c", List.of(node), infos, Set.of(), Set.of());
    }
}
