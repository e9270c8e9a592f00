import java.util.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.*;
import org.apache.kafka.common.serialization.*;

/**
 * RideTransactions ADDRESSES TOPIC PARTITIONS TRANSACTIONS ID writes 0 to TRANSACTIONS-1 to every partition, each number in a transaction of its own, and
 * between them others that it aborts. What fails without being fatal is aborted and written again. It prints how often that was, and ends with status 0.
 */
public class RideTransactions {
    static String topic;
    static int partitions;
    static KafkaProducer<byte[], byte[]> producer;

    public static void main(String[] args) throws Exception {
        topic = args[1];
        partitions = Integer.parseInt(args[2]);
        int transactions = Integer.parseInt(args[3]), again = 0;
        Map<String, Object> conf = Map.of("bootstrap.servers", args[0], "transactional.id", args[4], "linger.ms", "0");
        producer = new KafkaProducer<>(conf, new ByteArraySerializer(), new ByteArraySerializer());
        try (var p = producer) {
            p.initTransactions();
            for (int n = 0; n < transactions; n++) {
                while (!attempt(Integer.toString(n), true)) again++;
                if (n % 5 == 0) attempt("aborted " + n, false);
            }
        }
        System.out.println(again + " transactions written again");
    }

    /** attempt returns whether the transaction was committed; a fatal error it throws. */
    static boolean attempt(String value, boolean commit) {
        try {
            producer.beginTransaction();
            for (int part = 0; part < partitions; part++) producer.send(new ProducerRecord<>(topic, part, null, value.getBytes()));
            producer.flush();
            if (commit) {
                while (true) {
                    try {
                        producer.commitTransaction();
                        return true;
                    } catch (TimeoutException e) { // may be asked again, until it is known
                    }
                }
            }
        } catch (ProducerFencedException | InvalidProducerEpochException | OutOfOrderSequenceException | AuthorizationException e) {
            throw e;
        } catch (KafkaException e) { // abort it
        }
        producer.abortTransaction();
        return false;
    }
}
