package sluice.lab;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * A consumer that says what it does. It reads commands, one JSON document a line: {"do": "join", "properties": {},
 * "topics": [], "speed": bytes a second}, {"do": "leave"}; the end of its input ends it. It writes events, one a line,
 * each with "at" in milliseconds since 1970: ready, got (with the offsets of each partition and the milliseconds of
 * work), assigned, revoked, lost, left, failed.
 */
public final class Consume implements ConsumerRebalanceListener {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Duration POLL = Duration.ofMillis(100);
    private volatile boolean leaving;

    public static void main(String[] args) throws Exception {
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        Consume now = null;
        Thread thread = null;
        say(event("ready"));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            JsonNode command = JSON.readTree(line);
            if (thread != null) {
                now.leaving = true;
                thread.join();
                thread = null;
            }
            if (command.get("do").textValue().equals("join")) {
                Consume next = new Consume();
                thread = new Thread(() -> next.run(command));
                thread.start();
                now = next;
            }
        }
        if (thread != null) {
            now.leaving = true;
            thread.join();
        }
    }

    private void run(JsonNode command) {
        Properties properties = new Properties();
        command.get("properties").properties().forEach(each ->
                properties.put(each.getKey(), each.getValue().asText()));
        List<String> topics = new ArrayList<>();
        command.get("topics").forEach(topic -> topics.add(topic.textValue()));
        double speed = command.get("speed").doubleValue();
        ByteArrayDeserializer bytes = new ByteArrayDeserializer();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(properties, bytes, bytes)) {
            consumer.subscribe(topics, this);
            while (!leaving) {
                ConsumerRecords<byte[], byte[]> records = consumer.poll(POLL);
                if (!records.isEmpty()) {
                    work(records, speed);
                }
            }
        } catch (InterruptedException stopped) {
            Thread.currentThread().interrupt();
        } catch (RuntimeException error) {
            say(event("failed").put("why", error.toString()));
        }
        say(event("left"));
    }

    /** Process the records at the given speed. */
    private static void work(ConsumerRecords<byte[], byte[]> records, double speed) throws InterruptedException {
        long began = System.nanoTime();
        long size = 0;
        ObjectNode event = event("got");
        ArrayNode of = event.putArray("of");
        for (TopicPartition at : records.partitions()) {
            List<ConsumerRecord<byte[], byte[]>> some = records.records(at);
            for (ConsumerRecord<byte[], byte[]> record : some) {
                size += record.serializedValueSize();
            }
            of.addArray()
                    .add(at.topic())
                    .add(at.partition())
                    .add(some.get(0).offset())
                    .add(some.get(some.size() - 1).offset() + 1);
        }
        long nanos = Math.round(size / speed * 1e9);
        Thread.sleep(nanos / 1_000_000, (int) (nanos % 1_000_000));
        say(event.put("bytes", size).put("busy", (System.nanoTime() - began) / 1_000_000.0));
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        tell("assigned", partitions);
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        tell("revoked", partitions);
    }

    @Override
    public void onPartitionsLost(Collection<TopicPartition> partitions) {
        tell("lost", partitions);
    }

    private static void tell(String what, Collection<TopicPartition> partitions) {
        ObjectNode event = event(what);
        ArrayNode of = event.putArray("of");
        partitions.forEach(at -> of.addArray().add(at.topic()).add(at.partition()));
        say(event);
    }

    private static ObjectNode event(String what) {
        return JSON.createObjectNode().put("event", what).put("at", System.currentTimeMillis());
    }

    private static synchronized void say(ObjectNode event) {
        System.out.println(event);
        System.out.flush();
    }
}
