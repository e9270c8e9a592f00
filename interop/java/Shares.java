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
import org.apache.kafka.common.serialization.*;

/**
 * Checks of share groups with the Java client: Shares ADDRESS prints "saw NAME WHAT" for what each consumer was handed and was
 * told, which is to be the same whatever broker it is, and one line "ok NAME" or "failed NAME REASON" for each check.
 */
public class Shares {
    interface Check { void run(Notes saw) throws Exception; }

    /** What a check has seen, in order. */
    static class Notes {
        final List<String> all = new ArrayList<>();

        void add(String what, Object v) { all.add(what + ": " + v); }

        /** Notes each record as OFFSET*DELIVERIES. */
        void records(String what, List<ConsumerRecord<String, String>> got) {
            add(what, got.stream().map(r -> r.offset() + "*" + r.deliveryCount().get()).collect(Collectors.joining(" ")));
        }
    }

    static String addr;
    static final Map<String, Check> checks = new LinkedHashMap<>();

    public static void main(String[] args) throws Exception {
        addr = args[0];
        checks.put("lock-passes", Shares::lockPasses);
        checks.put("implicit", Shares::implicit);
        checks.put("explicit", Shares::explicit);
        checks.put("delivery-limit", Shares::deliveryLimit);
        checks.put("two-consumers", Shares::twoConsumers);
        checks.put("partitions", Shares::partitions);
        checks.put("close-explicit", s -> close(s, "explicit"));
        checks.put("close-implicit", s -> close(s, "implicit"));
        checks.put("callback", Shares::callback);
        for (String mode : List.of("batch_optimized", "record_limit")) checks.put("acquire-" + mode, s -> acquire(s, mode));
        checks.put("reset", Shares::reset);
        for (String level : List.of("read_committed", "read_uncommitted")) checks.put("isolation-" + level, s -> isolation(s, level));
        checks.put("misuse", Shares::misuse);
        checks.put("admin", Shares::admin);
        checks.put("wakeup", Shares::wakeup);
        if (args.length > 1) checks.keySet().retainAll(Arrays.asList(args).subList(1, args.length));
        ExecutorService pool = Executors.newFixedThreadPool(4);
        List<Future<?>> all = new ArrayList<>();
        checks.forEach((name, c) -> all.add(pool.submit(() -> {
            String result = "ok " + name;
            Notes saw = new Notes();
            try {
                c.run(saw);
            } catch (Throwable e) {
                StringBuilder where = new StringBuilder();
                for (StackTraceElement at : e.getStackTrace()) if (at.getClassName().startsWith("Shares")) where.append(" line ").append(at.getLineNumber());
                result = "failed " + name + " " + String.valueOf(e).replace('\n', ' ') + where;
            }
            synchronized (System.out) {
                for (String what : saw.all) System.out.println("saw " + name + " " + what);
                System.out.println(result);
            }
        })));
        for (Future<?> f : all) f.get();
        System.exit(0);
    }

    static void expect(boolean ok, String what) { if (!ok) throw new AssertionError(what); }

    static void same(Object want, Object got) { expect(Objects.equals(want, got), "want " + want + ", got " + got); }

    static <T> T get(KafkaFuture<T> f) throws Exception { return f.get(30, TimeUnit.SECONDS); }

    /** What came of a request: "ok", or the class of its error. */
    static String outcome(KafkaFuture<?> f) throws Exception {
        try {
            f.get(30, TimeUnit.SECONDS);
            return "ok";
        } catch (ExecutionException e) {
            return e.getCause().getClass().getSimpleName();
        }
    }

    static String fresh(String prefix) { return prefix + "-" + UUID.randomUUID(); }

    static Admin client() { return Admin.create(Map.of("bootstrap.servers", addr, "default.api.timeout.ms", 30000)); }

    static String topic(int partitions) throws Exception {
        String name = fresh("topic");
        try (Admin a = client()) {
            get(a.createTopics(List.of(new NewTopic(name, partitions, (short) 1))).all());
            eventually("topic is known", () -> {
                try { return get(a.describeTopics(List.of(name)).allTopicNames()).get(name).partitions().size() == partitions; } catch (ExecutionException e) { return false; }
            });
        }
        return name;
    }

    /** A share group with a configuration, "KEY=VALUE" each; it begins with the first record unless that says something else. */
    static String group(String... configs) throws Exception {
        String name = fresh("group");
        Map<String, String> set = new LinkedHashMap<>(Map.of("share.auto.offset.reset", "earliest"));
        for (String c : configs) set.put(c.substring(0, c.indexOf('=')), c.substring(c.indexOf('=') + 1));
        ConfigResource r = new ConfigResource(ConfigResource.Type.GROUP, name);
        try (Admin a = client()) {
            get(a.incrementalAlterConfigs(Map.of(r, set.entrySet().stream().map(e -> new AlterConfigOp(new ConfigEntry(e.getKey(), e.getValue()), AlterConfigOp.OpType.SET)).toList())).all());
            for (Map.Entry<String, String> e : set.entrySet())
                eventually("the group is configured", () -> e.getValue().equals(get(a.describeConfigs(List.of(r)).all()).get(r).get(e.getKey()).value()));
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

    static KafkaProducer<String, String> producer(Map<String, Object> more) {
        Map<String, Object> c = new HashMap<>(Map.of("bootstrap.servers", addr));
        c.putAll(more);
        return new KafkaProducer<>(c, new StringSerializer(), new StringSerializer());
    }

    /** Writes n records to partition 0, each in a batch of its own. */
    static void fill(String topic, int n) throws Exception {
        try (KafkaProducer<String, String> p = producer(Map.of("batch.size", 0, "linger.ms", 0))) {
            for (int i = 0; i < n; i++) p.send(new ProducerRecord<>(topic, 0, null, "v" + i)).get();
        }
    }

    /** Writes n records to partition 0, all in one batch. */
    static void fillOneBatch(String topic, int n) {
        try (KafkaProducer<String, String> p = producer(Map.of("linger.ms", 60000))) {
            for (int i = 0; i < n; i++) p.send(new ProducerRecord<>(topic, 0, null, "v" + i));
            p.flush();
        }
    }

    static KafkaShareConsumer<String, String> consumer(String topic, String group, Object... more) {
        Map<String, Object> c = new HashMap<>(Map.of("bootstrap.servers", addr, "group.id", group));
        for (int i = 0; i < more.length; i += 2) c.put((String) more[i], more[i + 1]);
        KafkaShareConsumer<String, String> s = new KafkaShareConsumer<>(c, new StringDeserializer(), new StringDeserializer());
        s.subscribe(List.of(topic));
        return s;
    }

    static KafkaShareConsumer<String, String> explicit(String topic, String group, Object... more) {
        List<Object> all = new ArrayList<>(List.of("share.acknowledgement.mode", "explicit"));
        all.addAll(Arrays.asList(more));
        return consumer(topic, group, all.toArray());
    }

    /** Polls until there is something, once if it can be: with short polls it may have acquired more than it returns. */
    static List<ConsumerRecord<String, String>> poll(KafkaShareConsumer<String, String> c) throws Exception {
        List<ConsumerRecord<String, String>> got = new ArrayList<>();
        eventually("records come", () -> {
            c.poll(Duration.ofSeconds(3)).forEach(got::add);
            return !got.isEmpty();
        });
        return got;
    }

    /** Polls and accepts until n records have come. */
    static List<ConsumerRecord<String, String>> poll(KafkaShareConsumer<String, String> c, int n) throws Exception {
        List<ConsumerRecord<String, String>> got = new ArrayList<>();
        eventually(n + " records come", () -> {
            for (ConsumerRecord<String, String> r : c.poll(Duration.ofMillis(200))) {
                got.add(r);
                if (got.size() > n) throw new AssertionError("more than " + n + ": " + r.offset());
            }
            return got.size() == n;
        });
        return got;
    }

    /** Checks that nothing comes in a second. */
    static void nothing(KafkaShareConsumer<String, String> c) {
        for (long end = System.nanoTime() + 1_000_000_000L; System.nanoTime() < end;)
            c.poll(Duration.ofMillis(200)).forEach(r -> { throw new AssertionError("offset " + r.offset() + " comes"); });
    }

    /** What came of acknowledgements: "ok", or the class of the error, for each partition. */
    static String told(Map<TopicIdPartition, Optional<KafkaException>> results) {
        return results.values().stream().map(e -> e.map(x -> x.getClass().getSimpleName()).orElse("ok")).sorted().toList().toString();
    }

    static void implicit(Notes saw) throws Exception {
        String topic = topic(1), group = group();
        fill(topic, 30);
        try (KafkaShareConsumer<String, String> c = consumer(topic, group)) {
            saw.records("all", poll(c, 30));
            saw.add("commit", told(c.commitSync()));
            saw.add("nothing to commit", told(c.commitSync()));
            fill(topic, 2);
            saw.records("more", poll(c, 2));
            nothing(c); // the next poll accepts
        }
        try (KafkaShareConsumer<String, String> c = consumer(topic, group)) {
            nothing(c);
            fill(topic, 1);
            saw.records("next member", poll(c, 1));
        }
    }

    static void explicit(Notes saw) throws Exception {
        String topic = topic(1), group = group();
        fill(topic, 12);
        try (KafkaShareConsumer<String, String> c = explicit(topic, group)) {
            Map<Long, List<Integer>> deliveries = new TreeMap<>();
            eventually("each record is done with", () -> {
                for (ConsumerRecord<String, String> r : c.poll(Duration.ofMillis(200))) {
                    int n = r.deliveryCount().get();
                    deliveries.computeIfAbsent(r.offset(), o -> new ArrayList<>()).add(n);
                    c.acknowledge(r, r.offset() % 4 == 1 && n == 1 ? AcknowledgeType.RELEASE : r.offset() % 4 == 2 ? AcknowledgeType.REJECT : AcknowledgeType.ACCEPT);
                }
                c.commitSync();
                return deliveries.values().stream().mapToInt(List::size).sum() == 15;
            });
            saw.add("deliveries", deliveries);
            nothing(c);
        }
        try (KafkaShareConsumer<String, String> c = explicit(topic, group)) { nothing(c); }
    }

    static void deliveryLimit(Notes saw) throws Exception {
        String topic = topic(1), group = group();
        fill(topic, 2);
        try (KafkaShareConsumer<String, String> c = explicit(topic, group)) {
            List<String> got = new ArrayList<>();
            eventually("the first is given up", () -> {
                for (ConsumerRecord<String, String> r : c.poll(Duration.ofMillis(200))) {
                    got.add(r.offset() + "*" + r.deliveryCount().get());
                    c.acknowledge(r, r.offset() == 0 ? AcknowledgeType.RELEASE : AcknowledgeType.ACCEPT);
                }
                c.commitSync();
                return got.stream().filter(s -> s.startsWith("0*")).count() == 5;
            });
            nothing(c);
            Collections.sort(got);
            saw.add("deliveries", got);
            fill(topic, 1);
            saw.records("next", poll(c, 1));
        }
    }

    /** One member lets the lock of a record pass, and renews that of another; a third it accepts in time. */
    static void lockPasses(Notes saw) throws Exception {
        String topic = topic(1), group = group();
        fillOneBatch(topic, 3); // all come at once, so that all locks begin at one time
        try (KafkaShareConsumer<String, String> one = explicit(topic, group); KafkaShareConsumer<String, String> two = explicit(topic, group)) {
            List<ConsumerRecord<String, String>> got = poll(one);
            same(3, got.size());
            Map<Long, ConsumerRecord<String, String>> at = new TreeMap<>();
            got.forEach(r -> at.put(r.offset(), r));
            int lock = one.acquisitionLockTimeoutMs().get();
            saw.add("lock", lock);
            long since = System.nanoTime();
            one.acknowledge(at.get(0L), AcknowledgeType.ACCEPT);
            saw.add("accepted", told(one.commitSync()));
            nothing(two);
            Thread.sleep(lock / 2);
            one.acknowledge(at.get(1L), AcknowledgeType.RENEW);
            saw.add("renewed", told(one.commitSync()));
            List<ConsumerRecord<String, String>> passed = poll(two, 1);
            expect(System.nanoTime() - since > (lock - 1000) * 1_000_000L, "the lock passed too early");
            saw.records("whose lock has passed", passed);
            one.acknowledge(at.get(2L), AcknowledgeType.ACCEPT);
            saw.add("acknowledged late", told(one.commitSync()));
            List<ConsumerRecord<String, String>> renewed = poll(one);
            saw.records("renewed, still its own", renewed);
            one.acknowledge(renewed.get(0), AcknowledgeType.ACCEPT);
            saw.add("acknowledged in the renewed time", told(one.commitSync()));
            two.acknowledge(passed.get(0), AcknowledgeType.ACCEPT);
            saw.add("by who has it", told(two.commitSync()));
            nothing(two);
        }
    }

    static void twoConsumers(Notes saw) throws Exception {
        String topic = topic(1), group = group();
        fill(topic, 60);
        try (KafkaShareConsumer<String, String> one = explicit(topic, group, "max.poll.records", 5, "share.acquire.mode", "record_limit");
             KafkaShareConsumer<String, String> two = explicit(topic, group, "max.poll.records", 5, "share.acquire.mode", "record_limit")) {
            Map<Long, Integer> seen = new TreeMap<>();
            List<ConsumerRecord<String, String>> first = poll(one), second = poll(two);
            saw.records("first", first);
            saw.records("second", second);
            first.forEach(r -> { one.acknowledge(r); seen.merge(r.offset(), 1, Integer::sum); });
            second.forEach(r -> { two.acknowledge(r); seen.merge(r.offset(), 1, Integer::sum); });
            eventually("all are handed out", () -> {
                for (KafkaShareConsumer<String, String> c : List.of(one, two)) for (ConsumerRecord<String, String> r : c.poll(Duration.ofMillis(200))) {
                    c.acknowledge(r);
                    seen.merge(r.offset(), 1, Integer::sum);
                }
                return seen.size() == 60;
            });
            one.commitSync();
            two.commitSync();
            saw.add("each once", seen.values().stream().allMatch(n -> n == 1));
            nothing(one);
            nothing(two);
        }
    }

    /** Each partition is somebody's, also when members come and go. */
    static void partitions(Notes saw) throws Exception {
        String topic = topic(4), group = group();
        Set<String> seen = ConcurrentHashMap.newKeySet();
        try (KafkaProducer<String, String> p = producer(Map.of()); KafkaShareConsumer<String, String> one = consumer(topic, group)) {
            for (int i = 0; i < 40; i++) p.send(new ProducerRecord<>(topic, i % 4, null, "a" + i)).get();
            eventually("one has everything", () -> { one.poll(Duration.ofMillis(200)).forEach(r -> seen.add(r.value())); return seen.size() == 40; });
            try (KafkaShareConsumer<String, String> two = consumer(topic, group)) {
                eventually("two have everything", () -> {
                    for (int i = 0; i < 4; i++) p.send(new ProducerRecord<>(topic, i, null, fresh("b"))).get();
                    one.poll(Duration.ofMillis(100)).forEach(r -> seen.add(r.value()));
                    return two.poll(Duration.ofMillis(100)).count() > 0;
                });
            }
            for (int i = 0; i < 40; i++) p.send(new ProducerRecord<>(topic, i % 4, null, "c" + i)).get();
            eventually("one has everything again", () -> { one.poll(Duration.ofMillis(200)).forEach(r -> seen.add(r.value())); return seen.stream().filter(v -> v.startsWith("c")).count() == 40; });
        }
        saw.add("read", seen.stream().filter(v -> !v.startsWith("b")).count());
    }

    /** A member closes with records that it has said nothing of. */
    static void close(Notes saw, String mode) throws Exception {
        String topic = topic(1), group = group();
        fill(topic, 4);
        KafkaShareConsumer<String, String> one = consumer(topic, group, "share.acknowledgement.mode", mode, "max.poll.records", 4);
        List<ConsumerRecord<String, String>> got = new ArrayList<>();
        while (got.isEmpty()) one.poll(Duration.ofMillis(200)).forEach(got::add);
        saw.records("before", got);
        if (mode.equals("explicit")) one.acknowledge(got.get(0));
        one.close();
        try (KafkaShareConsumer<String, String> two = consumer(topic, group)) {
            long start = System.nanoTime();
            saw.records("after", poll(two, mode.equals("explicit") ? 3 : 4));
            expect(System.nanoTime() - start < 20_000_000_000L, "they are another's only when their locks pass");
            two.commitSync();
            nothing(two);
        }
    }

    static void callback(Notes saw) throws Exception {
        String topic = topic(1), group = group();
        fill(topic, 6);
        try (KafkaShareConsumer<String, String> c = explicit(topic, group)) {
            Map<Long, String> said = new TreeMap<>();
            c.setAcknowledgementCommitCallback((offsets, e) -> offsets.values().forEach(s -> s.forEach(o -> said.put(o, e == null ? "ok" : e.getClass().getSimpleName()))));
            int n = 0;
            while (n < 6) {
                for (ConsumerRecord<String, String> r : c.poll(Duration.ofMillis(200))) {
                    c.acknowledge(r, r.offset() == 3 ? AcknowledgeType.REJECT : AcknowledgeType.ACCEPT);
                    n++;
                }
                c.commitAsync();
            }
            eventually("all are told of", () -> { c.poll(Duration.ofMillis(100)); return said.size() == 6; });
            saw.add("told", said);
        }
    }

    /** How many records of a batch of 20 come at once, and what is left to another member. */
    static void acquire(Notes saw, String mode) throws Exception {
        String topic = topic(1), group = group();
        try (KafkaProducer<String, String> p = producer(Map.of("linger.ms", 60_000, "batch.size", 1 << 20))) {
            for (int i = 0; i < 20; i++) p.send(new ProducerRecord<>(topic, 0, null, "v" + i));
            p.flush();
            for (int i = 0; i < 5; i++) p.send(new ProducerRecord<>(topic, 0, null, "w" + i));
            p.flush();
        }
        try (KafkaShareConsumer<String, String> one = explicit(topic, group, "max.poll.records", 5, "share.acquire.mode", mode);
             KafkaShareConsumer<String, String> two = explicit(topic, group, "max.poll.records", 5, "share.acquire.mode", mode)) {
            List<ConsumerRecord<String, String>> first = poll(one);
            saw.records("one", first);
            saw.records("two", poll(two));
        }
    }

    static void reset(Notes saw) throws Exception {
        String topic = topic(1);
        long old = System.currentTimeMillis() - 7_200_000;
        try (KafkaProducer<String, String> p = producer(Map.of())) {
            for (int i = 0; i < 4; i++) p.send(new ProducerRecord<>(topic, 0, i < 2 ? old : old + 7_000_000, null, "v" + i)).get();
        }
        String latest = group("share.auto.offset.reset=latest"), plain = fresh("group"), earliest = group(), hour = group("share.auto.offset.reset=by_duration:PT1H");
        try (KafkaShareConsumer<String, String> a = consumer(topic, latest); KafkaShareConsumer<String, String> b = consumer(topic, plain);
             KafkaShareConsumer<String, String> c = consumer(topic, earliest); KafkaShareConsumer<String, String> d = consumer(topic, hour)) {
            saw.records("earliest", poll(c, 4));
            saw.records("by duration", poll(d, 2));
            // A broker may find out what is latest only when records are fetched.
            Map<String, KafkaShareConsumer<String, String>> late = Map.of("latest", a, "default", b);
            for (String name : new TreeSet<>(late.keySet())) {
                List<Long> offsets = new ArrayList<>();
                eventually("a record comes", () -> {
                    fill(topic, 1);
                    late.get(name).poll(Duration.ofMillis(200)).forEach(r -> offsets.add(r.offset()));
                    return !offsets.isEmpty();
                });
                saw.add(name + ", of before", offsets.stream().filter(o -> o < 4).toList());
            }
        }
    }

    static void isolation(Notes saw, String level) throws Exception {
        String topic = topic(1), group = group("share.isolation.level=" + level);
        try (KafkaProducer<String, String> p = producer(Map.of("transactional.id", fresh("txn")))) {
            p.initTransactions();
            for (int i = 0; i < 4; i++) {
                p.beginTransaction();
                for (int j = 0; j < 2; j++) p.send(new ProducerRecord<>(topic, 0, null, i + "-" + j)).get();
                if (i % 2 == 1) p.abortTransaction(); else p.commitTransaction();
            }
            p.beginTransaction();
            p.send(new ProducerRecord<>(topic, 0, null, "open")).get();
            try (KafkaShareConsumer<String, String> c = consumer(topic, group)) {
                boolean committed = level.equals("read_committed");
                List<ConsumerRecord<String, String>> got = poll(c, committed ? 4 : 9);
                nothing(c);
                p.commitTransaction();
                if (committed) got.addAll(poll(c, 1));
                nothing(c);
                saw.add("values", got.stream().map(ConsumerRecord::value).toList());
            }
        }
    }

    /** What the client and the broker say to what makes no sense. */
    static void misuse(Notes saw) throws Exception {
        String topic = topic(1), group = group();
        fill(topic, 2);
        try (KafkaShareConsumer<String, String> c = explicit(topic, group); KafkaShareConsumer<String, String> all = explicit(topic, group)) {
            List<ConsumerRecord<String, String>> got = new ArrayList<>(poll(c));
            try { c.poll(Duration.ofMillis(10)); saw.add("poll with records", "ok"); } catch (IllegalStateException e) { saw.add("poll with records", "IllegalStateException"); }
            for (ConsumerRecord<String, String> r : got) c.acknowledge(r);
            try { c.acknowledge(topic, 0, 77, AcknowledgeType.ACCEPT); saw.add("unknown offset", "ok"); } catch (IllegalStateException e) { saw.add("unknown offset", "IllegalStateException"); }
            saw.add("commit", told(c.commitSync()));
        }
        // a group of another kind
        String classic = fresh("group");
        Map<String, Object> conf = Map.of("bootstrap.servers", addr, "group.id", classic, "auto.offset.reset", "earliest");
        try (KafkaConsumer<String, String> c = new KafkaConsumer<>(conf, new StringDeserializer(), new StringDeserializer())) {
            c.subscribe(List.of(topic));
            eventually("it reads", () -> c.poll(Duration.ofMillis(200)).count() > 0);
            try (KafkaShareConsumer<String, String> s = consumer(topic, classic)) {
                String[] said = new String[1];
                eventually("it is told", () -> {
                    try { s.poll(Duration.ofMillis(200)); } catch (Exception e) { said[0] = e.getClass().getSimpleName(); }
                    return said[0] != null;
                });
                saw.add("a consumer group", said[0]);
            }
        }
        try (KafkaShareConsumer<String, String> s = consumer(topic, group)) {
            s.poll(Duration.ofMillis(500));
            for (String protocol : List.of("classic", "consumer")) {
                Map<String, Object> other = new HashMap<>(Map.of("bootstrap.servers", addr, "group.id", group, "group.protocol", protocol));
                try (KafkaConsumer<String, String> c = new KafkaConsumer<>(other, new StringDeserializer(), new StringDeserializer())) {
                    c.subscribe(List.of(topic));
                    String[] said = new String[1];
                    eventually("it is told", () -> {
                        try { c.poll(Duration.ofMillis(200)); } catch (Exception e) { said[0] = e.getClass().getSimpleName(); }
                        return said[0] != null;
                    });
                    saw.add(protocol + " in a share group", said[0]);
                }
            }
        }
    }

    static void admin(Notes saw) throws Exception {
        String topic = topic(2), group = group();
        fill(topic, 5);
        TopicPartition tp = new TopicPartition(topic, 0);
        ListShareGroupOffsetsSpec every = new ListShareGroupOffsetsSpec();
        try (Admin a = client()) {
            saw.add("describe nothing", outcome(a.describeShareGroups(List.of(group)).all()));
            saw.add("delete nothing", outcome(a.deleteShareGroups(List.of(group)).all()));
            try (KafkaShareConsumer<String, String> c = consumer(topic, group, "client.id", "me")) {
                saw.records("first", poll(c, 5));
                saw.add("commit", told(c.commitSync()));
                ShareGroupDescription d = get(a.describeShareGroups(List.of(group)).all()).get(group);
                saw.add("state", d.groupState());
                saw.add("members", d.members().stream().map(m -> m.clientId() + " " + m.assignment().topicPartitions().size()).toList());
                saw.add("listed", get(a.listGroups(new ListGroupsOptions().withTypes(Set.of(GroupType.SHARE))).all()).stream().filter(g -> g.groupId().equals(group))
                    .map(g -> g.type().get() + " " + g.groupState().get() + " " + g.isSimpleConsumerGroup() + " '" + g.protocol() + "'").toList());
                saw.add("listed for shares", get(a.listGroups(ListGroupsOptions.forShareGroups()).all()).stream().anyMatch(g -> g.groupId().equals(group)));
                saw.add("listed for consumers", get(a.listGroups(ListGroupsOptions.forConsumerGroups()).all()).stream().anyMatch(g -> g.groupId().equals(group)));
                SharePartitionOffsetInfo at = get(a.listShareGroupOffsets(Map.of(group, every)).partitionsToOffsetInfo(group)).get(tp);
                saw.add("lag", at.lag());
                saw.add("alter while it works", outcome(a.alterShareGroupOffsets(group, Map.of(tp, 2L)).all()));
                saw.add("delete offsets while it works", outcome(a.deleteShareGroupOffsets(group, Set.of(topic)).all()));
                saw.add("delete while it works", outcome(a.deleteShareGroups(List.of(group)).all()));
                saw.add("describe as a consumer group", outcome(a.describeConsumerGroups(List.of(group)).all()));
                saw.add("delete as a consumer group", outcome(a.deleteConsumerGroups(List.of(group)).all()));
            }
            saw.add("state", get(a.describeShareGroups(List.of(group)).all()).get(group).groupState());
            saw.add("alter", outcome(a.alterShareGroupOffsets(group, Map.of(tp, 2L)).all()));
            saw.add("alter beyond", outcome(a.alterShareGroupOffsets(group, Map.of(new TopicPartition(topic, 7), 2L)).all()));
            saw.add("alter unknown", outcome(a.alterShareGroupOffsets(group, Map.of(new TopicPartition(fresh("nope"), 0), 2L)).all()));
            SharePartitionOffsetInfo at = get(a.listShareGroupOffsets(Map.of(group, every)).partitionsToOffsetInfo(group)).get(tp);
            saw.add("offset", at.startOffset() + " lag " + at.lag());
            try (KafkaShareConsumer<String, String> c = consumer(topic, group)) {
                saw.records("again", poll(c, 3));
                c.commitSync();
            }
            saw.add("delete offsets", outcome(a.deleteShareGroupOffsets(group, Set.of(topic)).all()));
            saw.add("no offsets", get(a.listShareGroupOffsets(Map.of(group, every)).partitionsToOffsetInfo(group)).size());
            saw.add("delete offsets again", outcome(a.deleteShareGroupOffsets(group, Set.of(topic)).all()));
            try (KafkaShareConsumer<String, String> c = consumer(topic, group)) {
                saw.records("from the first", poll(c, 5));
                c.commitSync();
            }
            saw.add("delete", outcome(a.deleteShareGroups(List.of(group)).all()));
            saw.add("deleted", outcome(a.describeShareGroups(List.of(group)).all()));
            saw.add("offsets of a deleted one", outcome(a.listShareGroupOffsets(Map.of(group, every)).partitionsToOffsetInfo(group)));
        }
    }

    static void wakeup(Notes saw) throws Exception {
        String topic = topic(1), group = group();
        fill(topic, 1);
        try (KafkaShareConsumer<String, String> c = explicit(topic, group)) {
            List<ConsumerRecord<String, String>> got = poll(c);
            saw.records("before", got);
            c.acknowledge(got.get(0), AcknowledgeType.RELEASE);
            c.wakeup();
            try { c.poll(Duration.ofSeconds(5)); saw.add("poll", "ok"); } catch (WakeupException e) { saw.add("poll", "WakeupException"); }
            saw.records("after", poll(c));
        }
    }
}
