package sluice.bench;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.flink.api.common.RuntimeExecutionMode;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.api.bridge.java.StreamStatementSet;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;

/**
 * Runs Flink SQL jobs on a cluster in this process, which stands between jobs and has 2 slots.
 *
 * <p>A line of standard input is the path of a job; the answer is "done", with the seconds of planning and of
 * running. A job is a line each: batch or streaming; an option (SET name value); a task (TASK and its parts); a view
 * that statements share (VIEW name query); other statements (DO statement) and the inserts (INSERT statement). Tabs
 * separate the parts.
 */
public final class Rival {
    private static final int SLOTS = 2;

    public static void main(String[] arguments) throws Exception {
        Configuration configuration = new Configuration();
        for (String option : arguments) {
            configuration.setString(option.split("=")[0], option.split("=")[1]);
        }
        MiniClusterConfiguration cluster = new MiniClusterConfiguration.Builder()
                .setConfiguration(configuration).setNumTaskManagers(1).setNumSlotsPerTaskManager(SLOTS).build();
        BufferedReader paths = new BufferedReader(new InputStreamReader(System.in));
        try (MiniCluster running = new MiniCluster(cluster)) {
            running.start();
            System.out.println("ready");
            for (String path = paths.readLine(); path != null; path = paths.readLine()) {
                System.out.println(run(running, Files.readAllLines(Path.of(path))));
            }
        }
    }

    private static String run(MiniCluster cluster, List<String> job) throws Exception {
        long began = System.nanoTime();
        JobGraph graph = planned(job);
        long planned = System.nanoTime();
        cluster.requestJobResult(cluster.submitJob(graph).get().getJobID()).get()
                .toJobExecutionResult(Rival.class.getClassLoader());
        long done = System.nanoTime();
        return String.format("done %.3f %.3f", (planned - began) / 1e9, (done - planned) / 1e9);
    }

    private static JobGraph planned(List<String> job) {
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.createLocalEnvironment(SLOTS);
        environment.setRuntimeMode(
                job.get(0).equals("batch") ? RuntimeExecutionMode.BATCH : RuntimeExecutionMode.STREAMING);
        environment.getConfig().enableObjectReuse();
        StreamTableEnvironment tables = StreamTableEnvironment.create(environment);
        StreamStatementSet inserts = tables.createStatementSet();
        List<Task> tasks = new ArrayList<>();
        for (String line : job.subList(1, job.size())) {
            String[] parts = line.split("\t");
            switch (parts[0]) {
                case "SET" -> tables.getConfig().set(parts[1], parts[2]);
                case "TASK" -> tasks.add(Task.of(Arrays.copyOfRange(parts, 1, parts.length)));
                case "FUNCTIONS" -> {
                    tables.createTemporarySystemFunction("cut", new Cut(tasks));
                    tables.createTemporarySystemFunction("explode", new Explode(tasks));
                }
                // A view of the SQL statement CREATE VIEW would be computed again for each insert.
                case "VIEW" -> tables.createTemporaryView(parts[1], tables.sqlQuery(parts[2]));
                case "DO" -> tables.executeSql(parts[1]);
                case "INSERT" -> inserts.addInsertSql(parts[1]);
                default -> throw new IllegalArgumentException(line);
            }
        }
        inserts.attachAsDataStream();
        return environment.getStreamGraph().getJobGraph();
    }
}
