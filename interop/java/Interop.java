import java.time.Duration;
import java.util.*;
import java.util.concurrent.*;
import java.util.stream.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.*;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.*;

/** Checks with the Java client: Interop ADDRESS prints one line "ok NAME" or "failed NAME REASON" for each. */
public class Interop {
    interface Check { void run() throws Exception; }

    static String addr;
    static final Map<String, Check> checks = new LinkedHashMap<>();

    public static void main(String[] args) throws Exception {
        addr = args[0];
        for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) checks.put("produce-" + codec, () -> roundTrip(Map.of("compression.type", codec)));
        checks.put("produce-acks-1", () -> roundTrip(Map.of("acks", "1", "enable.idempotence", "false")));
        checks.put("produce-acks-0", () -> roundTrip(Map.of("acks", "0", "enable.idempotence", "false")));
        for (String assignor : List.of("RangeAssignor", "RoundRobinAssignor", "StickyAssignor", "CooperativeStickyAssignor"))
            checks.put("group-" + assignor, () -> group("org.apache.kafka.clients.consumer." + assignor));
        checks.put("group-default-assignors", () -> group("org.apache.kafka.clients.consumer.RangeAssignor,org.apache.kafka.clients.consumer.CooperativeStickyAssignor"));
        checks.put("group-static", Interop::groupStatic);
        for (String assignor : List.of("uniform", "range")) checks.put("consumer-protocol-" + assignor, () -> consumerProtocol(assignor));
        checks.put("consumer-protocol-static", Interop::consumerProtocolStatic);
        checks.put("consumer-positions", Interop::positions);
        checks.put("admin-topics", Interop::adminTopics);
        checks.put("admin-configs", Interop::adminConfigs);
        checks.put("admin-records", Interop::adminRecords);
        checks.put("admin-groups", Interop::adminGroups);
        checks.put("admin-cluster", Interop::adminCluster);
        checks.put("transactions", Interop::transactions);
        checks.put("transform-exactly-once", Interop::transform);
        if (args.length > 1) checks.keySet().retainAll(Arrays.asList(args).subList(1, args.length));
        ExecutorService pool = Executors.newFixedThreadPool(4);
        List<Future<?>> all = new ArrayList<>();
        checks.forEach((name, c) -> all.add(pool.submit(() -> {
            String result = "ok " + name;
            try {
                c.run();
            } catch (Throwable e) {
                StringBuilder where = new StringBuilder();
                for (StackTraceElement at : e.getStackTrace()) if (at.getClassName().startsWith("Interop")) where.append(" line ").append(at.getLineNumber());
                result = "failed " + name + " " + String.valueOf(e).replace('\n', ' ') + where;
            }
            synchronized (System.out) { System.out.println(result); }
        })));
        for (Future<?> f : all) f.get();
        System.exit(0);
    }

    static void expect(boolean ok, String what) { if (!ok) throw new AssertionError(what); }

    static void same(Object want, Object got) { expect(Objects.equals(want, got), "want " + want + ", got " + got); }

    static <E extends Throwable> void fails(Class<E> with, KafkaFuture<?> f) throws Exception {
        try {
            f.get(30, TimeUnit.SECONDS);
        } catch (ExecutionException e) {
            expect(with.isInstance(e.getCause()), "want " + with + ", got " + e.getCause());
            return;
        }
        throw new AssertionError("want " + with);
    }

    static <T> T get(KafkaFuture<T> f) throws Exception { return f.get(30, TimeUnit.SECONDS); }

    static String fresh(String prefix) { return prefix + "-" + UUID.randomUUID(); }

    static Admin admin() { return Admin.create(Map.of("bootstrap.servers", addr, "default.api.timeout.ms", 30000)); }

    static String topic(int partitions) throws Exception {
        String name = fresh("topic");
        try (Admin a = admin()) {
            get(a.createTopics(List.of(new NewTopic(name, partitions, (short) 1))).all());
            eventually("topic is known", () -> {
                try { return get(a.describeTopics(List.of(name)).allTopicNames()).get(name).partitions().size() == partitions; } catch (ExecutionException e) { return false; }
            });
        }
        return name;
    }

    interface Condition { boolean holds() throws Exception; }

    static void eventually(String what, Condition c) throws Exception {
        long end = System.nanoTime() + 40_000_000_000L;
        while (!c.holds()) {
            expect(System.nanoTime() < end, what);
            Thread.sleep(20);
        }
    }

    static KafkaProducer<byte[], byte[]> producer(Map<String, String> more) {
        Map<String, Object> c = new HashMap<>(Map.of("bootstrap.servers", addr));
        c.putAll(more);
        return new KafkaProducer<>(c, new ByteArraySerializer(), new ByteArraySerializer());
    }

    static KafkaConsumer<String, String> consumer(Map<String, String> more) {
        Map<String, Object> c = new HashMap<>(Map.of("bootstrap.servers", addr, "auto.offset.reset", "earliest", "heartbeat.interval.ms", "200", "session.timeout.ms", "10000"));
        c.putAll(more);
        if ("consumer".equals(c.get("group.protocol"))) c.keySet().removeAll(List.of("heartbeat.interval.ms", "session.timeout.ms")); // the group's
        return new KafkaConsumer<>(c, new StringDeserializer(), new StringDeserializer());
    }

    static void fill(String topic, int n) throws Exception {
        try (KafkaProducer<byte[], byte[]> p = producer(Map.of())) {
            for (int i = 0; i < n; i++) p.send(new ProducerRecord<>(topic, 0, 1_700_000_000_000L + i, null, ("v" + i).getBytes()));
            p.flush();
        }
    }

    static void roundTrip(Map<String, String> conf) throws Exception {
        String topic = topic(1);
        try (KafkaProducer<byte[], byte[]> p = producer(conf)) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (int i = 0; i < 500; i++) {
                sent.add(p.send(new ProducerRecord<>(topic, 0, 1_700_000_000_000L + i, i % 3 == 0 ? null : ("k" + i).getBytes(), i % 5 == 0 ? null : ("v" + i).getBytes(),
                    List.of(new RecordHeader("h", i % 2 == 0 ? null : new byte[] {(byte) i})))));
            }
            for (int i = 0; i < 500; i++) {
                RecordMetadata m = sent.get(i).get(30, TimeUnit.SECONDS);
                if (!"0".equals(conf.get("acks"))) same((long) i, m.offset());
            }
        }
        try (KafkaConsumer<String, String> c = consumer(Map.of("max.poll.records", "70"))) {
            c.assign(List.of(new TopicPartition(topic, 0)));
            int i = 0;
            for (long end = System.nanoTime() + 40_000_000_000L; i < 500 && System.nanoTime() < end;) {
                for (ConsumerRecord<String, String> r : c.poll(Duration.ofSeconds(1))) {
                    same((long) i, r.offset());
                    same(1_700_000_000_000L + i, r.timestamp());
                    same(i % 3 == 0 ? null : "k" + i, r.key());
                    same(i % 5 == 0 ? null : "v" + i, r.value());
                    same(1, r.headers().toArray().length);
                    i++;
                }
            }
            same(500, i);
        }
    }

    static class Member implements AutoCloseable, ConsumerRebalanceListener {
        final KafkaConsumer<String, String> c;
        final Set<TopicPartition> owned = ConcurrentHashMap.newKeySet();
        final Set<String> seen = ConcurrentHashMap.newKeySet();
        final Thread thread;
        volatile boolean stop;
        volatile Throwable failed;
        volatile ConsumerGroupMetadata metadata; // as of the last assignment: only the member's thread may ask for it

        Member(String topic, Map<String, String> conf) {
            c = consumer(conf);
            thread = new Thread(() -> {
                try {
                    c.subscribe(List.of(topic), this);
                    while (!stop) for (ConsumerRecord<String, String> r : c.poll(Duration.ofMillis(100))) seen.add(r.partition() + "/" + r.offset());
                    c.commitSync();
                } catch (Throwable e) { failed = e; } finally { c.close(); }
            });
            thread.start();
        }

        public void onPartitionsAssigned(Collection<TopicPartition> p) {
            metadata = c.groupMetadata();
            owned.addAll(p);
        }
        public void onPartitionsRevoked(Collection<TopicPartition> p) { owned.removeAll(p); }
        public void close() throws Exception {
            stop = true;
            thread.join();
            if (failed != null) throw new AssertionError("member: " + failed, failed);
        }
    }

    static void group(String assignors) throws Exception {
        String topic = topic(4), group = fresh("group");
        fill(topic, 50);
        Map<String, String> conf = Map.of("group.id", group, "partition.assignment.strategy", assignors);
        try (Admin a = admin(); Member one = new Member(topic, conf)) {
            eventually("one member has everything", () -> one.owned.size() == 4 && one.seen.size() == 50);
            try (Member two = new Member(topic, conf)) {
                eventually("two members share", () -> one.owned.size() == 2 && two.owned.size() == 2);
                ConsumerGroupDescription d = get(a.describeConsumerGroups(List.of(group)).all()).get(group);
                same(GroupState.STABLE, d.groupState());
                same(2, d.members().size());
                same(4, d.members().stream().mapToInt(m -> m.assignment().topicPartitions().size()).sum());
            }
            eventually("the first has everything again", () -> one.owned.size() == 4);
        }
    }

    static void consumerProtocol(String assignor) throws Exception {
        String topic = topic(4), group = fresh("group");
        fill(topic, 50);
        Map<String, String> conf = Map.of("group.id", group, "group.protocol", "consumer", "group.remote.assignor", assignor);
        try (Admin a = admin(); Member one = new Member(topic, conf)) {
            eventually("one member has everything", () -> one.owned.size() == 4 && one.seen.size() == 50);
            int before = one.metadata.generationId();
            try (Member two = new Member(topic, conf)) {
                eventually("two members share", () -> one.owned.size() == 2 && two.owned.size() == 2);
                expect(Collections.disjoint(one.owned, two.owned), "nobody shares a partition");
                expect(two.metadata.generationId() > before, "a later epoch");
                ConsumerGroupDescription[] d = new ConsumerGroupDescription[1];
                eventually("the group is stable", () -> (d[0] = get(a.describeConsumerGroups(List.of(group)).all()).get(group)).groupState() == GroupState.STABLE);
                same(GroupType.CONSUMER, d[0].type());
                same(assignor, d[0].partitionAssignor());
                same(2, d[0].members().size());
                same(4, d[0].members().stream().mapToInt(m -> m.assignment().topicPartitions().size()).sum());
                fill(topic, 50);
                eventually("all is read", () -> {
                    Set<String> seen = new HashSet<>(one.seen);
                    seen.addAll(two.seen);
                    return seen.size() == 100;
                });
            }
            eventually("the first has everything again", () -> one.owned.size() == 4);
            fill(topic, 50);
            eventually("it reads on", () -> one.seen.size() >= 100);
        }
        try (Admin a = admin()) {
            same(GroupState.EMPTY, get(a.describeConsumerGroups(List.of(group)).all()).get(group).groupState());
            same(150L, get(a.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata()).values().stream().mapToLong(OffsetAndMetadata::offset).sum());
        }
    }

    static void consumerProtocolStatic() throws Exception {
        String topic = topic(2), group = fresh("group");
        Map<String, String> conf = Map.of("group.id", group, "group.protocol", "consumer", "group.instance.id", "one");
        try (Admin a = admin()) {
            String id;
            int epoch;
            try (Member m = new Member(topic, conf)) {
                eventually("it has everything", () -> m.owned.size() == 2);
                id = m.metadata.memberId();
                epoch = m.metadata.generationId();
                Member second = new Member(topic, conf);
                eventually("another one of its instance id is refused", () -> second.failed instanceof UnreleasedInstanceIdException);
                same(2, m.owned.size());
            }
            same(1, get(a.describeConsumerGroups(List.of(group)).all()).get(group).members().size());
            try (Member m = new Member(topic, conf)) {
                eventually("it has everything again", () -> m.owned.size() == 2);
                expect(!id.equals(m.metadata.memberId()), "a new member id");
                same(epoch, m.metadata.generationId());
            }
            get(a.removeMembersFromConsumerGroup(group, new RemoveMembersFromConsumerGroupOptions(List.of(new MemberToRemove("one")))).all());
            same(GroupState.EMPTY, get(a.describeConsumerGroups(List.of(group)).all()).get(group).groupState());
        }
    }

    static void groupStatic() throws Exception {
        String topic = topic(2), group = fresh("group");
        Map<String, String> conf = Map.of("group.id", group, "group.instance.id", "one");
        try (Admin a = admin()) {
            String id;
            try (Member m = new Member(topic, conf)) {
                eventually("it has everything", () -> m.owned.size() == 2);
                id = m.metadata.memberId();
            }
            same(1, get(a.describeConsumerGroups(List.of(group)).all()).get(group).members().size());
            try (Member m = new Member(topic, conf)) {
                eventually("it has everything again", () -> m.owned.size() == 2);
                expect(!id.equals(m.metadata.memberId()), "a new member id");
                same(1, m.metadata.generationId());
            }
            get(a.removeMembersFromConsumerGroup(group, new RemoveMembersFromConsumerGroupOptions(List.of(new MemberToRemove("one")))).all());
            same(GroupState.EMPTY, get(a.describeConsumerGroups(List.of(group)).all()).get(group).groupState());
        }
    }

    static void positions() throws Exception {
        String topic = topic(2), group = fresh("group");
        fill(topic, 10);
        TopicPartition tp = new TopicPartition(topic, 0), empty = new TopicPartition(topic, 1);
        try (KafkaConsumer<String, String> c = consumer(Map.of("group.id", group, "enable.auto.commit", "false"))) {
            same(Map.of(tp, 0L, empty, 0L), c.beginningOffsets(List.of(tp, empty)));
            same(Map.of(tp, 10L, empty, 0L), c.endOffsets(List.of(tp, empty)));
            same(4L, c.offsetsForTimes(Map.of(tp, 1_700_000_000_004L)).get(tp).offset());
            same(null, c.offsetsForTimes(Map.of(tp, 1_800_000_000_000L)).get(tp));
            same(2, c.partitionsFor(topic).size());
            expect(c.listTopics().containsKey(topic), "listTopics");
            c.assign(List.of(tp));
            c.seek(tp, 7);
            ConsumerRecords<String, String> got = c.poll(Duration.ofSeconds(10));
            same("v7", got.iterator().next().value());
            c.commitSync(Map.of(tp, new OffsetAndMetadata(8, Optional.of(0), "note")));
            OffsetAndMetadata committed = c.committed(Set.of(tp)).get(tp);
            same(8L, committed.offset());
            same("note", committed.metadata());
            same(null, c.committed(Set.of(empty)).get(empty));
            c.seekToEnd(List.of(tp));
            same(10L, c.position(tp));
        }
        try (KafkaConsumer<String, String> c = consumer(Map.of("group.id", group))) {
            c.assign(List.of(tp));
            same(8L, c.position(tp));
        }
        try (KafkaConsumer<String, String> c = consumer(Map.of("group.id", fresh("group"), "auto.offset.reset", "none"))) {
            c.assign(List.of(tp));
            try {
                c.poll(Duration.ofSeconds(5));
                throw new AssertionError("no offset is an error here");
            } catch (NoOffsetForPartitionException e) { }
        }
    }

    static void adminTopics() throws Exception {
        String topic = fresh("topic");
        try (Admin a = admin()) {
            CreateTopicsResult made = a.createTopics(List.of(new NewTopic(topic, 3, (short) 1).configs(Map.of("retention.ms", "1234567"))));
            get(made.all());
            same(3, get(made.numPartitions(topic)));
            same("1234567", get(made.config(topic)).get("retention.ms").value());
            fails(TopicExistsException.class, a.createTopics(List.of(new NewTopic(topic, 3, (short) 1))).all());
            fails(InvalidTopicException.class, a.createTopics(List.of(new NewTopic("a/b", 1, (short) 1))).all());
            fails(InvalidReplicationFactorException.class, a.createTopics(List.of(new NewTopic(fresh("t"), 1, (short) 7))).all());
            get(a.createTopics(List.of(new NewTopic(fresh("t"), Optional.empty(), Optional.empty())), new CreateTopicsOptions().validateOnly(true)).all());
            eventually("the topic is listed", () -> get(a.listTopics().names()).contains(topic));
            Uuid id = get(made.topicId(topic));
            TopicDescription d = get(a.describeTopics(TopicCollection.ofTopicIds(List.of(id))).allTopicIds()).get(id);
            same(topic, d.name());
            same(3, d.partitions().size());
            get(a.createPartitions(Map.of(topic, NewPartitions.increaseTo(5))).all());
            fails(InvalidPartitionsException.class, a.createPartitions(Map.of(topic, NewPartitions.increaseTo(2))).all());
            eventually("it has grown", () -> get(a.describeTopics(List.of(topic)).allTopicNames()).get(topic).partitions().size() == 5);
            fails(UnknownTopicOrPartitionException.class, a.describeTopics(List.of(fresh("nope"))).allTopicNames());
            get(a.deleteTopics(List.of(topic)).all());
            eventually("it is gone", () -> !get(a.listTopics().names()).contains(topic));
        }
    }

    static void adminConfigs() throws Exception {
        String topic = topic(1);
        ConfigResource r = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        try (Admin a = admin()) {
            get(a.incrementalAlterConfigs(Map.of(r, List.of(
                new AlterConfigOp(new ConfigEntry("retention.ms", "1234567"), AlterConfigOp.OpType.SET),
                new AlterConfigOp(new ConfigEntry("cleanup.policy", "compact"), AlterConfigOp.OpType.APPEND)))).all());
            fails(InvalidConfigurationException.class, a.incrementalAlterConfigs(Map.of(r, List.of(new AlterConfigOp(new ConfigEntry("nonsense", "1"), AlterConfigOp.OpType.SET)))).all());
            eventually("the change is seen", () -> "1234567".equals(get(a.describeConfigs(List.of(r)).all()).get(r).get("retention.ms").value()));
            Config c = get(a.describeConfigs(List.of(r), new DescribeConfigsOptions().includeSynonyms(true).includeDocumentation(true)).all()).get(r);
            ConfigEntry retention = c.get("retention.ms"), segment = c.get("segment.bytes");
            same(ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG, retention.source());
            same("delete,compact", c.get("cleanup.policy").value());
            expect(!segment.synonyms().isEmpty() && segment.synonyms().get(0).name().equals("log.segment.bytes"), "synonyms: " + segment.synonyms());
            expect(retention.documentation() != null && !retention.documentation().isEmpty(), "documentation");
            same(ConfigEntry.ConfigSource.DEFAULT_CONFIG, segment.source());
            same(ConfigEntry.ConfigType.INT, segment.type());
            Node node = get(a.describeCluster().nodes()).iterator().next();
            ConfigResource broker = new ConfigResource(ConfigResource.Type.BROKER, node.idString());
            Config bc = get(a.describeConfigs(List.of(broker)).all()).get(broker);
            expect(bc.get("log.retention.ms") != null || bc.get("log.retention.hours") != null, "broker configs");
            get(a.listConfigResources().all());
        }
    }

    /** Every third transaction is aborted; another producer with the same id fences the first. */
    static void transactions() throws Exception {
        String topic = topic(1), id = fresh("txn");
        List<String> want = new ArrayList<>();
        KafkaProducer<byte[], byte[]> p = producer(Map.of("transactional.id", id));
        p.initTransactions();
        for (int i = 0; i < 10; i++) {
            p.beginTransaction();
            for (int j = 0; j < 10; j++) {
                p.send(new ProducerRecord<>(topic, 0, null, (i + "-" + j).getBytes()));
                if (i % 3 != 2) want.add(i + "-" + j);
            }
            if (i % 3 == 2) { p.flush(); p.abortTransaction(); } else p.commitTransaction();
        }
        p.beginTransaction();
        p.send(new ProducerRecord<>(topic, 0, null, "late".getBytes())).get();
        try (KafkaProducer<byte[], byte[]> next = producer(Map.of("transactional.id", id))) {
            next.initTransactions();
            try {
                p.commitTransaction();
                throw new AssertionError("a fenced producer commits");
            } catch (ProducerFencedException | InvalidProducerEpochException e) {
            }
            p.close(Duration.ZERO);
            next.beginTransaction();
            next.send(new ProducerRecord<>(topic, 0, null, "next".getBytes()));
            next.commitTransaction();
            want.add("next");
        }
        try (KafkaConsumer<String, String> c = consumer(Map.of("isolation.level", "read_committed"))) {
            TopicPartition tp = new TopicPartition(topic, 0);
            c.assign(List.of(tp));
            List<String> seen = new ArrayList<>();
            eventually("everything committed is read", () -> {
                c.poll(Duration.ofMillis(100)).forEach(r -> seen.add(r.value()));
                return seen.size() >= want.size();
            });
            same(want, seen);
        }
        try (Admin a = admin()) {
            TransactionDescription d = get(a.describeTransactions(List.of(id)).description(id));
            same(TransactionState.COMPLETE_COMMIT, d.state());
            expect(get(a.listTransactions(new ListTransactionsOptions().filterOnTransactionalIdPattern(id)).all()).size() == 1, "it is listed by its pattern");
        }
    }

    /** Two members copy a topic in transactions with the offsets of what they read; one leaves in the middle. */
    static void transform() throws Exception {
        String from = topic(2), to = topic(1), group = fresh("group");
        try (KafkaProducer<byte[], byte[]> p = producer(Map.of())) {
            for (int i = 0; i < 1000; i++) p.send(new ProducerRecord<>(from, i % 2, null, ("v" + i).getBytes()));
        }
        ExecutorService pool = Executors.newFixedThreadPool(2);
        List<Future<?>> members = new ArrayList<>();
        java.util.concurrent.atomic.AtomicBoolean done = new java.util.concurrent.atomic.AtomicBoolean();
        for (int n = 0; n < 2; n++) {
            boolean leaves = n == 1;
            members.add(pool.submit(() -> {
                try (KafkaConsumer<String, String> c = consumer(Map.of("group.id", group, "isolation.level", "read_committed", "enable.auto.commit", "false", "max.poll.records", "50"));
                     KafkaProducer<byte[], byte[]> p = producer(Map.of("transactional.id", fresh("txn")))) {
                    p.initTransactions();
                    c.subscribe(List.of(from));
                    for (int round = 0; !done.get() && !(leaves && round == 8); round++) {
                        ConsumerRecords<String, String> got = c.poll(Duration.ofMillis(200));
                        if (got.isEmpty()) continue;
                        p.beginTransaction();
                        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
                        for (ConsumerRecord<String, String> r : got) {
                            p.send(new ProducerRecord<>(to, 0, null, r.value().getBytes()));
                            offsets.put(new TopicPartition(r.topic(), r.partition()), new OffsetAndMetadata(r.offset() + 1));
                        }
                        try {
                            p.sendOffsetsToTransaction(offsets, c.groupMetadata());
                            p.commitTransaction();
                        } catch (CommitFailedException | RebalanceInProgressException | TransactionAbortableException e) {
                            p.abortTransaction();
                            c.enforceRebalance();
                            for (TopicPartition tp : c.assignment()) {
                                OffsetAndMetadata at = c.committed(Set.of(tp)).get(tp);
                                c.seek(tp, at == null ? 0 : at.offset());
                            }
                        }
                    }
                }
                return null;
            }));
        }
        Map<String, Integer> seen = new HashMap<>();
        try (KafkaConsumer<String, String> c = consumer(Map.of("isolation.level", "read_committed"))) {
            c.assign(List.of(new TopicPartition(to, 0)));
            eventually("everything is copied", () -> {
                c.poll(Duration.ofMillis(100)).forEach(r -> seen.merge(r.value(), 1, Integer::sum));
                return seen.size() == 1000;
            });
        } finally {
            done.set(true);
        }
        for (Future<?> m : members) m.get(30, TimeUnit.SECONDS);
        pool.shutdown();
        expect(seen.values().stream().allMatch(n -> n == 1), "something was copied twice");
    }

    static void adminRecords() throws Exception {
        String topic = topic(1);
        fill(topic, 20);
        TopicPartition tp = new TopicPartition(topic, 0);
        try (Admin a = admin()) {
            same(7L, get(a.deleteRecords(Map.of(tp, RecordsToDelete.beforeOffset(7))).lowWatermarks().get(tp)).lowWatermark());
            fails(org.apache.kafka.common.errors.OffsetOutOfRangeException.class, a.deleteRecords(Map.of(tp, RecordsToDelete.beforeOffset(99))).all());
            same(7L, get(a.listOffsets(Map.of(tp, OffsetSpec.earliest())).all()).get(tp).offset());
            same(20L, get(a.listOffsets(Map.of(tp, OffsetSpec.latest())).all()).get(tp).offset());
            same(19L, get(a.listOffsets(Map.of(tp, OffsetSpec.maxTimestamp())).all()).get(tp).offset());
            same(10L, get(a.listOffsets(Map.of(tp, OffsetSpec.forTimestamp(1_700_000_000_010L))).all()).get(tp).offset());
            DescribeProducersResult.PartitionProducerState s = get(a.describeProducers(List.of(tp)).all()).get(tp);
            same(1, s.activeProducers().size());
            same(19, s.activeProducers().get(0).lastSequence());
        }
    }

    static void adminGroups() throws Exception {
        String topic = topic(2), group = fresh("group");
        fill(topic, 5);
        TopicPartition tp = new TopicPartition(topic, 0);
        try (Admin a = admin()) {
            try (Member m = new Member(topic, Map.of("group.id", group))) {
                eventually("the group reads", () -> m.seen.size() == 5);
                get(a.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata());
                fails(UnknownMemberIdException.class, a.alterConsumerGroupOffsets(group, Map.of(tp, new OffsetAndMetadata(1))).all());
                fails(GroupNotEmptyException.class, a.deleteConsumerGroups(List.of(group)).all());
                fails(GroupSubscribedToTopicException.class, a.deleteConsumerGroupOffsets(group, Set.of(tp)).all());
                same(ClassicGroupState.STABLE, get(a.describeClassicGroups(List.of(group)).all()).get(group).state());
            }
            same(5L, get(a.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata()).get(tp).offset());
            get(a.alterConsumerGroupOffsets(group, Map.of(tp, new OffsetAndMetadata(2))).all());
            same(2L, get(a.listConsumerGroupOffsets(Map.of(group, new ListConsumerGroupOffsetsSpec())).all()).get(group).get(tp).offset());
            Collection<GroupListing> all = get(a.listGroups(new ListGroupsOptions().withTypes(Set.of(GroupType.CLASSIC)).inGroupStates(Set.of(GroupState.EMPTY))).all());
            expect(all.stream().anyMatch(g -> g.groupId().equals(group)), "the group is listed");
            expect(get(a.listGroups(ListGroupsOptions.forConsumerGroups()).all()).stream().anyMatch(g -> g.groupId().equals(group)), "the group is listed as a consumer group");
            get(a.deleteConsumerGroupOffsets(group, Set.of(tp)).all());
            same(null, get(a.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata()).get(tp));
            get(a.deleteConsumerGroups(List.of(group)).all());
            fails(GroupIdNotFoundException.class, a.describeConsumerGroups(List.of(group)).all());
            fails(GroupIdNotFoundException.class, a.deleteConsumerGroups(List.of(group)).all());
        }
    }

    static void adminCluster() throws Exception {
        String topic = topic(1);
        fill(topic, 1);
        try (Admin a = admin()) {
            DescribeClusterResult c = a.describeCluster(new DescribeClusterOptions().includeAuthorizedOperations(true));
            List<Integer> ids = get(c.nodes()).stream().map(Node::id).toList();
            expect(get(c.nodes()).stream().anyMatch(n -> addr.equals(n.host() + ":" + n.port())), "the broker asked");
            expect(!get(c.clusterId()).isEmpty(), "cluster id");
            expect(get(c.controller()) != null, "controller");
            Map<Integer, Map<String, LogDirDescription>> all = get(a.describeLogDirs(ids).allDescriptions());
            TopicPartition tp = new TopicPartition(topic, 0);
            expect(all.values().stream().flatMap(dirs -> dirs.values().stream()).anyMatch(d -> d.replicaInfos().containsKey(tp) && d.replicaInfos().get(tp).size() > 0), "log dirs");
            get(a.describeFeatures().featureMetadata());
            QuorumInfo q = get(a.describeMetadataQuorum().quorumInfo());
            expect(q.leaderId() >= 0 && !q.voters().isEmpty(), "quorum");
            Map<TopicPartition, Optional<Throwable>> elected = get(a.electLeaders(ElectionType.PREFERRED, Set.of(tp)).partitions());
            expect(elected.isEmpty() || elected.get(tp).get() instanceof ElectionNotNeededException, "election: " + elected);
            get(a.listPartitionReassignments().reassignments());
        }
    }
}
