package sluice.lab;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.Random;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Sends records at a steady rate, until its input ends. Its argument is a JSON document: {"bootstrap": ..., "bytes":
 * a record's size, "rates": [[topic, partition, records a second], ...]}.
 */
public final class Produce {
    private static final int SLOT_MS = 50;

    private Produce() {}

    record Stream(String topic, int partition, double rate) {}

    public static void main(String[] args) throws Exception {
        JsonNode wanted = new ObjectMapper().readTree(args[0]);
        Properties properties = new Properties();
        properties.put("bootstrap.servers", wanted.get("bootstrap").textValue());
        properties.put("acks", "1");
        properties.put("linger.ms", "5");
        List<Stream> streams = new ArrayList<>();
        wanted.get("rates").forEach(each ->
                streams.add(new Stream(each.get(0).textValue(), each.get(1).intValue(), each.get(2).doubleValue())));
        byte[] value = new byte[wanted.get("bytes").intValue()];
        new Random(1).nextBytes(value);
        ByteArraySerializer bytes = new ByteArraySerializer();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(properties, bytes, bytes)) {
            send(producer, streams, value);
        }
    }

    private static void send(KafkaProducer<byte[], byte[]> producer, List<Stream> streams, byte[] value)
            throws Exception {
        long began = System.nanoTime();
        long[] sent = new long[streams.size()];
        Thread end = new Thread(Produce::awaitEnd);
        end.start();
        while (end.isAlive()) {
            double seconds = (System.nanoTime() - began) / 1e9;
            for (int n = 0; n < sent.length; n++) {
                Stream stream = streams.get(n);
                for (; sent[n] < seconds * stream.rate; sent[n]++) {
                    producer.send(new ProducerRecord<>(stream.topic, stream.partition, null, value));
                }
            }
            Thread.sleep(SLOT_MS);
        }
    }

    private static void awaitEnd() {
        try {
            while (System.in.read() >= 0) {}
        } catch (java.io.IOException closed) {
            return;
        }
    }
}
