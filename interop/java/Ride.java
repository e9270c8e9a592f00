import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.serialization.*;

/**
 * Ride ADDRESSES TOPIC PARTITIONS RECORDS PACE writes 0 to RECORDS-1 to every partition, PACE milliseconds apart, with an idempotent producer,
 * and ends with status 0 if all were acknowledged.
 */
public class Ride {
    public static void main(String[] args) throws Exception {
        String topic = args[1];
        int partitions = Integer.parseInt(args[2]), records = Integer.parseInt(args[3]);
        long pace = Long.parseLong(args[4]);
        AtomicReference<Exception> failed = new AtomicReference<>();
        Map<String, Object> conf = Map.of("bootstrap.servers", args[0], "acks", "all", "enable.idempotence", "true", "linger.ms", "5");
        try (KafkaProducer<byte[], byte[]> p = new KafkaProducer<>(conf, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (int n = 0; n < records; n++) {
                for (int part = 0; part < partitions; part++) {
                    p.send(new ProducerRecord<>(topic, part, null, Integer.toString(n).getBytes()), (m, e) -> { if (e != null) failed.compareAndSet(null, e); });
                }
                Thread.sleep(pace);
            }
            p.flush();
        }
        if (failed.get() != null) {
            failed.get().printStackTrace();
            System.exit(1);
        }
    }
}
