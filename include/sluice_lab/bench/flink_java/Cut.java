package sluice.bench;

import java.util.ArrayList;
import java.util.List;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.apache.flink.table.api.DataTypes;
import org.apache.flink.table.catalog.DataTypeFactory;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.StringData;
import org.apache.flink.table.functions.TableFunction;
import org.apache.flink.table.types.inference.InputTypeStrategies;
import org.apache.flink.table.types.inference.TypeInference;
import org.apache.flink.table.types.inference.TypeStrategies;

/** One row a line: ms, the fields f5, f7, ... that any task reads as text, m9, ... those that are numbers. */
public final class Cut extends TableFunction<RowData> {
    private final int[] texts, numbers;
    private transient Line line;
    private transient GenericRowData row;

    Cut(List<Task> tasks) {
        texts = tasks.stream().flatMapToInt(t -> IntStream.concat(IntStream.of(t.where()), IntStream.of(t.dimensions())))
                .distinct().sorted().toArray();
        numbers = tasks.stream().mapToInt(Task::measure).distinct().sorted().toArray();
    }

    public void eval(StringData text) {
        if (line == null) {
            line = new Line(IntStream.concat(IntStream.of(texts), IntStream.of(numbers)).max().orElse(0));
            row = new GenericRowData(1 + texts.length + numbers.length);
        }
        line.cut(text);
        row.setField(0, line.ms());
        int at = 1;
        for (int field : texts) {
            row.setField(at++, line.text(field));
        }
        for (int field : numbers) {
            row.setField(at++, line.number(field));
        }
        collect(row);
    }

    @Override
    public TypeInference getTypeInference(DataTypeFactory factory) {
        List<DataTypes.Field> fields = new ArrayList<>(List.of(DataTypes.FIELD("ms", DataTypes.BIGINT())));
        IntStream.of(texts).forEach(n -> fields.add(DataTypes.FIELD("f" + n, DataTypes.STRING())));
        IntStream.of(numbers).forEach(n -> fields.add(DataTypes.FIELD("m" + n, DataTypes.DOUBLE())));
        return inference(fields.stream());
    }

    /** A function of a line, as Flink keeps it, that gives rows of these fields, as Flink keeps them. */
    static TypeInference inference(Stream<DataTypes.Field> fields) {
        return TypeInference.newBuilder()
                .inputTypeStrategy(InputTypeStrategies.explicitSequence(DataTypes.STRING().bridgedTo(StringData.class)))
                .outputTypeStrategy(TypeStrategies.explicit(
                        DataTypes.ROW(fields.toArray(DataTypes.Field[]::new)).bridgedTo(RowData.class)))
                .build();
    }
}
