package sluice.bench;

import java.nio.charset.StandardCharsets;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.util.Arrays;
import java.util.List;
import org.apache.flink.core.memory.MemorySegment;
import org.apache.flink.table.data.StringData;
import org.apache.flink.table.data.binary.BinaryStringData;

/** A line cut in place: where its fields stand in the bytes of Flink's own column, of which nothing is copied. */
final class Line {
    private static final List<String> MONTHS =
            List.of("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec");
    /** The characters of [17/May/2015:10:05:03, which is field 3; field 4 has the zone. */
    private static final int STAMP = 21;
    private static final long EXACT = 1L << 53;

    final int[] begin, end;
    byte[] bytes;
    private final byte[] stamp = new byte[STAMP];
    private long stampMs;

    /** last: the highest index of a field that will be read. */
    Line(int last) {
        begin = new int[Math.max(last, 4) + 1];
        end = new int[begin.length];
    }

    /** Cuts the line; a field that it does not have is empty. */
    void cut(StringData text) {
        BinaryStringData line = (BinaryStringData) text;
        line.ensureMaterialized();
        MemorySegment segment = line.getSegments()[0];
        bytes = segment.getArray();
        int at = line.getOffset(), stop = at + line.getSizeInBytes();
        for (int field = 0; field < begin.length; field++) {
            begin[field] = Math.min(at, stop);
            while (at < stop && bytes[at] != ' ') {
                at++;
            }
            end[field] = Math.min(at, stop);
            at++;
        }
    }

    /** The event time; a stamp that equals the line's before is not read again. */
    long ms() {
        int at = begin[3];
        if (!Arrays.equals(bytes, at, at + STAMP, stamp, 0, STAMP)) {
            System.arraycopy(bytes, at, stamp, 0, STAMP);
            String month = new String(bytes, at + 4, 3, StandardCharsets.US_ASCII);
            stampMs = LocalDateTime.of(
                    digits(at + 8, 4), MONTHS.indexOf(month) + 1, digits(at + 1, 2),
                    digits(at + 13, 2), digits(at + 16, 2), digits(at + 19, 2)).toEpochSecond(ZoneOffset.UTC) * 1000;
        }
        int zone = digits(begin[4] + 1, 2) * 60 + digits(begin[4] + 3, 2);
        return stampMs - (bytes[begin[4]] == '-' ? -zone : zone) * 60_000L;
    }

    private int digits(int at, int count) {
        int value = 0;
        for (int n = at; n < at + count; n++) {
            value = value * 10 + bytes[n] - '0';
        }
        return value;
    }

    StringData text(int field) {
        return BinaryStringData.fromBytes(bytes, begin[field], end[field] - begin[field]);
    }

    /** The field as a number; null if it is none. */
    Double number(int field) {
        long value = 0, scale = 1;
        boolean fraction = false;
        for (int at = begin[field]; at < end[field]; at++) {
            if (bytes[at] == '.' && !fraction) {
                fraction = true;
            } else if (bytes[at] >= '0' && bytes[at] <= '9' && value < EXACT / 10) {
                value = value * 10 + bytes[at] - '0';
                scale = fraction ? scale * 10 : scale;
            } else {
                return slowly(field);
            }
        }
        return end[field] == begin[field] ? null : (double) value / scale;
    }

    private Double slowly(int field) {
        try {
            return Double.valueOf(new String(bytes, begin[field], end[field] - begin[field], StandardCharsets.UTF_8));
        } catch (NumberFormatException none) {
            return null;
        }
    }
}
