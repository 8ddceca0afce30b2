package sluice.lab;

import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.GroupSpec;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.assignor.MemberSubscription;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;

/** The assignors that run in the broker (KIP-848). */
final class ServerSide {
    static final Set<String> NAMES = Set.of("kip848-uniform", "kip848-range");

    private ServerSide() {}

    static Assignors.Round named(String name) {
        return group -> {
            ConsumerGroupPartitionAssignor assignor =
                    name.equals("kip848-uniform") ? new UniformAssignor() : new RangeAssignor();
            Described described = new Described(group);
            Map<String, List<TopicPartition>> found = new TreeMap<>();
            assignor.assign(described, described)
                    .members()
                    .forEach((id, assignment) -> found.put(id, described.plain(assignment)));
            return found;
        };
    }

    /** A group as the broker describes it to its assignors: topics by id. */
    private static final class Described implements GroupSpec, SubscribedTopicDescriber {
        private final Assignors.Group group;
        private final Map<String, Uuid> ids = new HashMap<>();
        private final Map<Uuid, String> names = new HashMap<>();
        private final Map<Uuid, Set<Integer>> assigned = new HashMap<>();

        Described(Assignors.Group group) {
            this.group = group;
            group.partitions().forEach((topic, count) -> {
                Uuid id = new Uuid(1, ids.size() + 1);
                ids.put(topic, id);
                names.put(id, topic);
            });
            group.members().values().forEach(member -> byTopic(member.owned()).forEach(
                    (id, numbers) -> assigned.computeIfAbsent(id, key -> new HashSet<>()).addAll(numbers)));
        }

        List<TopicPartition> plain(MemberAssignment assignment) {
            List<TopicPartition> found = new ArrayList<>();
            assignment.partitions().forEach((id, numbers) -> numbers.forEach(
                    number -> found.add(new TopicPartition(names.get(id), number))));
            return found;
        }

        private Map<Uuid, Set<Integer>> byTopic(List<TopicPartition> owned) {
            Map<Uuid, Set<Integer>> found = new HashMap<>();
            owned.forEach(at ->
                    found.computeIfAbsent(ids.get(at.topic()), key -> new HashSet<>()).add(at.partition()));
            return found;
        }

        private Set<Uuid> topics(String member) {
            Set<Uuid> found = new HashSet<>();
            group.members().get(member).topics().forEach(topic -> found.add(ids.get(topic)));
            return found;
        }

        @Override
        public Collection<String> memberIds() {
            return group.members().keySet();
        }

        @Override
        public SubscriptionType subscriptionType() {
            boolean alike = memberIds().stream().map(this::topics).distinct().count() <= 1;
            return alike ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
        }

        @Override
        public boolean isPartitionAssigned(Uuid topic, int number) {
            return assigned.getOrDefault(topic, Set.of()).contains(number);
        }

        @Override
        public boolean isPartitionAssignable(Uuid topic, int number) {
            return true;
        }

        @Override
        public MemberSubscription memberSubscription(String member) {
            Set<Uuid> topics = topics(member);
            return new MemberSubscription() {
                @Override
                public Optional<String> rackId() {
                    return Optional.empty();
                }

                @Override
                public Optional<String> instanceId() {
                    return Optional.empty();
                }

                @Override
                public Set<Uuid> subscribedTopicIds() {
                    return topics;
                }
            };
        }

        @Override
        public MemberAssignment memberAssignment(String member) {
            // The assignor copies only what it changes, and knows what it must copy by the class of the map.
            Map<Uuid, Set<Integer>> owned =
                    Collections.unmodifiableMap(byTopic(group.members().get(member).owned()));
            return () -> owned;
        }

        @Override
        public int numPartitions(Uuid topic) {
            return group.partitions().get(names.get(topic));
        }

        @Override
        public Set<String> racksForPartition(Uuid topic, int number) {
            return Set.of();
        }
    }
}
