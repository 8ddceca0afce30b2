package sluice.bench;

import java.util.List;
import java.util.stream.Stream;
import org.apache.flink.table.api.DataTypes;
import org.apache.flink.table.catalog.DataTypeFactory;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.StringData;
import org.apache.flink.table.data.binary.BinaryStringData;
import org.apache.flink.table.functions.TableFunction;
import org.apache.flink.table.types.inference.TypeInference;

/** One row for each task that a line passes: the task's number, its period's start, its key, its measure. */
public final class Explode extends TableFunction<RowData> {
    private final Task[] tasks;
    private transient Line line;
    private transient GenericRowData row;
    private transient byte[] key;

    Explode(List<Task> tasks) {
        this.tasks = tasks.toArray(Task[]::new);
    }

    public void eval(StringData text) {
        if (line == null) {
            line = new Line(Stream.of(tasks).mapToInt(Task::last).max().orElse(0));
            row = new GenericRowData(4);
            key = new byte[1 << 16];
        }
        line.cut(text);
        long ms = line.ms();
        for (int number = 0; number < tasks.length; number++) {
            Task task = tasks[number];
            if (task.passes(line)) {
                row.setField(0, number);
                row.setField(1, ms - ms % task.periodMs());
                row.setField(2, key(task));
                row.setField(3, line.number(task.measure()));
                collect(row);
            }
        }
    }

    private StringData key(Task task) {
        if (task.dimensions().length == 1) {
            return line.text(task.dimensions()[0]);
        }
        int size = 0;
        for (int field : task.dimensions()) {
            if (size > 0) {
                key[size++] = '_';
            }
            int length = line.end[field] - line.begin[field];
            System.arraycopy(line.bytes, line.begin[field], key, size, length);
            size += length;
        }
        return BinaryStringData.fromBytes(key, 0, size);
    }

    @Override
    public TypeInference getTypeInference(DataTypeFactory factory) {
        return Cut.inference(Stream.of(
                DataTypes.FIELD("task", DataTypes.INT()),
                DataTypes.FIELD("start", DataTypes.BIGINT()),
                DataTypes.FIELD("key", DataTypes.STRING()),
                DataTypes.FIELD("m", DataTypes.DOUBLE())));
    }
}
