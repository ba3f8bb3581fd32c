import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import org.apache.kafka.clients.producer.internals.BuiltInPartitioner;
import org.apache.kafka.common.utils.Utils;

/** Where Kafka's own producer puts a key: keys on standard input, "murmur2 partition" out. */
public final class Partition {
    private Partition() {}

    public static void main(String[] arguments) throws Exception {
        int partitions = Integer.parseInt(arguments[0]);
        var keys = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String key = keys.readLine(); key != null; key = keys.readLine()) {
            byte[] bytes = key.getBytes(StandardCharsets.UTF_8);
            int partition = BuiltInPartitioner.partitionForKey(bytes, partitions);
            System.out.println(Utils.murmur2(bytes) + " " + partition);
        }
    }
}
