package sluice.bench;

import java.io.Serializable;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.stream.Stream;

/** What one task selects and groups by: indexes of fields that a space separates. */
record Task(int where, boolean white, byte[][] values, int[] dimensions, int measure, long periodMs)
        implements Serializable {

    /** Reads where, white or black, values, dimensions, measure, period in ms; lists have commas. */
    static Task of(String[] parts) {
        return new Task(
                Integer.parseInt(parts[0]),
                parts[1].equals("white"),
                Stream.of(parts[2].split(",")).map(v -> v.getBytes(StandardCharsets.UTF_8)).toArray(byte[][]::new),
                Stream.of(parts[3].split(",")).mapToInt(Integer::parseInt).toArray(),
                Integer.parseInt(parts[4]),
                Long.parseLong(parts[5]));
    }

    boolean passes(Line line) {
        int from = line.begin[where], to = line.end[where];
        for (byte[] value : values) {
            if (Arrays.equals(line.bytes, from, to, value, 0, value.length)) {
                return white;
            }
        }
        return !white;
    }

    /** The highest index that the task reads. */
    int last() {
        return Math.max(Math.max(where, measure), Arrays.stream(dimensions).max().orElse(0));
    }
}
