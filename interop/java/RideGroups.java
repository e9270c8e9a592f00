import java.time.Duration;
import java.util.*;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.errors.*;
import org.apache.kafka.common.serialization.*;

/**
 * RideGroups ADDRESSES TOPIC GROUP KIND RECORDS has three members of a group read until they have been handed RECORDS different records, and
 * prints how many there were, and how many were handed out again after a confirmation. KIND is share, or consumer (KIP-848). Errors that
 * brokers which die bring about are got over, as the client's documentation has it; others end it with status 1.
 */
public class RideGroups {
    static final Set<String> seen = ConcurrentHashMap.newKeySet(), done = ConcurrentHashMap.newKeySet(); // handed out; confirmed
    static final AtomicInteger again = new AtomicInteger();
    static final AtomicReference<Throwable> failed = new AtomicReference<>();
    static int records;

    public static void main(String[] args) throws Exception {
        records = Integer.parseInt(args[4]);
        List<Thread> members = new ArrayList<>();
        for (int n = 0; n < 3; n++) {
            Thread t = new Thread(() -> {
                try {
                    if (args[3].equals("share")) share(args[0], args[1], args[2]); else consume(args[0], args[1], args[2]);
                } catch (Throwable e) { failed.compareAndSet(null, e); }
            });
            t.start();
            members.add(t);
        }
        for (Thread t : members) t.join();
        System.out.println("seen " + seen.size() + " again " + again);
        if (failed.get() != null) {
            failed.get().printStackTrace();
            System.exit(1);
        }
        System.exit(0);
    }

    static boolean goesOn() { return seen.size() < records && failed.get() == null; }

    static String key(ConsumerRecord<String, String> r) { return r.partition() + "/" + r.offset(); }

    static void note(String key) {
        seen.add(key);
        if (done.contains(key)) again.incrementAndGet();
    }

    static void share(String addr, String topic, String group) {
        Map<String, Object> conf = Map.of("bootstrap.servers", addr, "group.id", group, "share.acknowledgement.mode", "explicit", "share.acquire.mode", "record_limit", "max.poll.records", 50);
        try (KafkaShareConsumer<String, String> c = new KafkaShareConsumer<>(conf, new StringDeserializer(), new StringDeserializer())) {
            c.subscribe(List.of(topic));
            while (goesOn()) {
                Map<Integer, List<String>> got = new HashMap<>();
                for (ConsumerRecord<String, String> r : c.poll(Duration.ofMillis(200))) {
                    note(key(r));
                    got.computeIfAbsent(r.partition(), p -> new ArrayList<>()).add(key(r));
                    c.acknowledge(r, AcknowledgeType.ACCEPT);
                }
                // what is refused, or not answered, is somebody's again
                c.commitSync().forEach((tp, e) -> { if (e.isEmpty()) done.addAll(got.getOrDefault(tp.partition(), List.of())); });
            }
        }
    }

    static void consume(String addr, String topic, String group) {
        Map<String, Object> conf = Map.of("bootstrap.servers", addr, "group.id", group, "group.protocol", "consumer", "auto.offset.reset", "earliest", "enable.auto.commit", "false");
        try (KafkaConsumer<String, String> c = new KafkaConsumer<>(conf, new StringDeserializer(), new StringDeserializer())) {
            Map<TopicPartition, Set<String>> read = new HashMap<>(); // and not committed
            c.subscribe(List.of(topic), new ConsumerRebalanceListener() {
                public void onPartitionsRevoked(Collection<TopicPartition> p) { read.keySet().removeAll(p); }
                public void onPartitionsAssigned(Collection<TopicPartition> p) { }
            });
            while (goesOn()) {
                for (ConsumerRecord<String, String> r : c.poll(Duration.ofMillis(200))) {
                    note(key(r));
                    read.computeIfAbsent(new TopicPartition(r.topic(), r.partition()), p -> new HashSet<>()).add(key(r));
                }
                try {
                    c.commitSync(Duration.ofSeconds(20));
                    read.values().forEach(done::addAll);
                    read.clear();
                } catch (CommitFailedException | RetriableCommitFailedException | TimeoutException e) {
                    read.clear(); // it may have been done or not: whoever has the partition reads on from there
                    rewind(c);
                }
            }
        }
    }

    /** Has a member go on from what is committed. */
    static void rewind(KafkaConsumer<String, String> c) {
        while (true) {
            try {
                for (TopicPartition tp : c.assignment()) {
                    OffsetAndMetadata at = c.committed(Set.of(tp)).get(tp);
                    c.seek(tp, at == null ? 0 : at.offset());
                }
                return;
            } catch (TimeoutException e) { } // its coordinator is away
        }
    }
}
