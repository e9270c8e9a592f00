import java.util.*;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.*;
import org.apache.kafka.streams.kstream.*;

/** Counts words with Kafka Streams, exactly once: Words ADDRESS APPLICATION STATE-DIRECTORY FROM TO GROUP-PROTOCOL. It runs until it is killed. */
public class Words {
    public static void main(String[] args) throws Exception {
        Properties c = new Properties();
        c.put("bootstrap.servers", args[0]);
        c.put("application.id", args[1]);
        c.put("state.dir", args[2]);
        c.put("processing.guarantee", "exactly_once_v2");
        c.put("statestore.cache.max.bytes", "0"); // every count is written
        c.put("commit.interval.ms", "50");
        c.put("num.stream.threads", "1");
        c.put("group.protocol", args[5]);
        if (args[5].equals("classic")) { // otherwise the brokers say so
            c.put("session.timeout.ms", "6000");
            c.put("heartbeat.interval.ms", "500");
        }
        c.put("transaction.timeout.ms", "6000");
        c.put("auto.offset.reset", "earliest");
        StreamsBuilder b = new StreamsBuilder();
        b.stream(args[3], Consumed.with(Serdes.String(), Serdes.String()))
            .flatMapValues(line -> Arrays.asList(line.split(" ")))
            .groupBy((key, word) -> word, Grouped.with(Serdes.String(), Serdes.String()))
            .count()
            .toStream()
            .to(args[4], Produced.with(Serdes.String(), Serdes.Long()));
        KafkaStreams streams = new KafkaStreams(b.build(), c);
        CountDownLatch failed = new CountDownLatch(1);
        streams.setUncaughtExceptionHandler(e -> {
            System.out.println("failed " + e);
            failed.countDown();
            return org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.setStateListener((now, before) -> System.out.println("state " + now));
        streams.start();
        failed.await();
        System.exit(1);
    }
}
