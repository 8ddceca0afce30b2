package sluice.lab;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.TopicPartition;

/**
 * Asks Kafka's own assignors: reads {"repeats": n, "cases": [{"assignor": name, "members": {id: {"topics": [...],
 * "owned": [[topic, number], ...], "generation": n}}, "partitions": {topic: count}}, ...]} and writes, for each
 * case, {"assignment": {id: [[topic, number], ...]}, "rounds": n, "nanoseconds": the quickest}.
 */
public final class Assignors {
    private Assignors() {}

    record Member(List<String> topics, List<TopicPartition> owned, int generation) {}

    record Group(Map<String, Member> members, Map<String, Integer> partitions) {
        /** The group after its members took over what they were given. */
        Group owning(Map<String, List<TopicPartition>> given) {
            Map<String, Member> next = new TreeMap<>();
            members.forEach((id, member) ->
                    next.put(id, new Member(member.topics, given.get(id), member.generation + 1)));
            return new Group(next, partitions);
        }
    }

    /** An assignor of one round; a cooperative one may need a second round to finish. */
    interface Round {
        Map<String, List<TopicPartition>> assign(Group group);
    }

    public static void main(String[] args) throws Exception {
        ObjectMapper json = new ObjectMapper();
        JsonNode input = json.readTree(System.in);
        ArrayNode found = json.createArrayNode();
        for (JsonNode each : input.get("cases")) {
            String name = each.get("assignor").textValue();
            Round round = ServerSide.NAMES.contains(name) ? ServerSide.named(name) : ClientSide.named(name);
            found.add(answer(json, round, group(each), input.get("repeats").intValue()));
        }
        json.writeValue(System.out, found);
    }

    private static ObjectNode answer(ObjectMapper json, Round round, Group group, int repeats) {
        long quickest = Long.MAX_VALUE;
        for (int n = 0; n < repeats; n++) {
            long began = System.nanoTime();
            round.assign(group);
            quickest = Math.min(quickest, System.nanoTime() - began);
        }
        int rounds = 0;
        Map<String, List<TopicPartition>> given;
        Group now = group;
        do {
            given = round.assign(now);
            now = now.owning(given);
            rounds++;
        } while (given.values().stream().mapToInt(List::size).sum() < wanted(group) && rounds < 5);
        ObjectNode answer = json.createObjectNode();
        ObjectNode assignment = answer.putObject("assignment");
        given.forEach((id, held) -> {
            ArrayNode list = assignment.putArray(id);
            held.forEach(at -> list.addArray().add(at.topic()).add(at.partition()));
        });
        return answer.put("rounds", rounds).put("nanoseconds", quickest);
    }

    private static int wanted(Group group) {
        TreeSet<String> topics = new TreeSet<>();
        group.members().values().forEach(member -> topics.addAll(member.topics()));
        return topics.stream().mapToInt(topic -> group.partitions().getOrDefault(topic, 0)).sum();
    }

    private static Group group(JsonNode given) {
        Map<String, Member> members = new TreeMap<>();
        given.get("members").properties().forEach(entry -> {
            List<String> topics = new ArrayList<>();
            entry.getValue().get("topics").forEach(topic -> topics.add(topic.textValue()));
            List<TopicPartition> owned = new ArrayList<>();
            entry.getValue().get("owned").forEach(at ->
                    owned.add(new TopicPartition(at.get(0).textValue(), at.get(1).intValue())));
            members.put(entry.getKey(), new Member(topics, owned, entry.getValue().get("generation").intValue()));
        });
        Map<String, Integer> partitions = new TreeMap<>();
        given.get("partitions").properties().forEach(entry ->
                partitions.put(entry.getKey(), entry.getValue().intValue()));
        return new Group(members, partitions);
    }
}
