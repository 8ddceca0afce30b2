package sluice.lab;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.Socket;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Configurable;
import org.apache.kafka.common.TopicPartition;

/**
 * A cooperative assignor that asks another process, so that the platform has its algorithm once, in Python.
 *
 * <p>The group's leader connects to the loopback port {@code sluice.ask.port}, sends the group as one JSON document,
 * and reads what each member gets in this round.
 */
public final class AskedAssignor implements ConsumerPartitionAssignor, Configurable {
    private static final int PATIENCE_MS = 5_000;
    private static final ObjectMapper JSON = new ObjectMapper();
    private int port;

    @Override
    public void configure(Map<String, ?> configuration) {
        port = Integer.parseInt(String.valueOf(configuration.get("sluice.ask.port")));
    }

    @Override
    public String name() {
        return "sluice";
    }

    @Override
    public List<RebalanceProtocol> supportedProtocols() {
        return List.of(RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER);
    }

    @Override
    public GroupAssignment assign(Cluster metadata, GroupSubscription group) {
        ObjectNode question = JSON.createObjectNode();
        ObjectNode members = question.putObject("members");
        TreeSet<String> topics = new TreeSet<>();
        group.groupSubscription().forEach((id, subscription) -> {
            ObjectNode member = members.putObject(id);
            member.put("generation", subscription.generationId().orElse(-1));
            subscription.topics().forEach(member.putArray("topics")::add);
            ArrayNode owned = member.putArray("owned");
            subscription.ownedPartitions().forEach(at -> owned.addArray().add(at.topic()).add(at.partition()));
            topics.addAll(subscription.topics());
        });
        ObjectNode partitions = question.putObject("partitions");
        topics.forEach(topic -> partitions.put(topic, metadata.partitionCountForTopic(topic)));
        JsonNode answer = ask(question);
        Map<String, Assignment> found = new HashMap<>();
        group.groupSubscription().keySet().forEach(id -> {
            List<TopicPartition> held = new ArrayList<>();
            answer.get(id).forEach(at -> held.add(new TopicPartition(at.get(0).textValue(), at.get(1).intValue())));
            found.put(id, new Assignment(held));
        });
        return new GroupAssignment(found);
    }

    private JsonNode ask(JsonNode question) {
        try (Socket socket = new Socket(InetAddress.getLoopbackAddress(), port)) {
            socket.setSoTimeout(PATIENCE_MS);
            socket.getOutputStream().write(JSON.writeValueAsBytes(question));
            socket.shutdownOutput();
            return JSON.readTree(socket.getInputStream());
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }
}
