package org.apache.kafka.common.test.junit;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;

/** Says to a strata serve what a test's annotations say to Kafka's broker. What cannot be said aborts the test. */
final class Settings {
    private Settings() { }

    /** What tests set to be quick, or to what is so anyway: they do not ask what it is. */
    private static final Set<String> WITHOUT_EFFECT = Set.of(
        "auto.leader.rebalance.enable=false", // partitions are led by their first replica that lives
        "controlled.shutdown.enable=true",
        "delete.topic.enable=true",
        "group.coordinator.rebalance.protocols=classic,consumer",
        "group.share.persister.class.name=", // which keeps nothing
        "group.share.persister.class.name=org.apache.kafka.server.share.persister.DefaultStatePersister",
        "log.cleaner.dedupe.buffer.size=2097154",
        "log.initial.task.delay.ms=100",
        "log.segment.delete.delay.ms=1000",
        "replica.fetch.max.bytes=1",
        "unclean.leader.election.interval.ms=10",
        "unstable.api.versions.enable=false",
        "unstable.feature.versions.enable=false",
        "unstable.feature.versions.enable=true");

    /** Adds options for properties of server.properties. */
    static void add(List<String> command, Map<String, String> properties) {
        new TreeMap<>(properties).forEach((name, value) -> {
            String p = name + "=" + value;
            switch (name) {
                case "authorizer.class.name" -> command.add("--authorize");
                case "super.users" -> command.addAll(List.of("--super-users", value.replace(';', ',')));
                default -> {
                    if (!WITHOUT_EFFECT.contains(p)) {
                        command.addAll(List.of("--set", p));
                    }
                }
            }
        });
    }

    /** Adds options for what brokers have for themselves, by their ids in Kafka's framework: 0, 1, ... */
    static void addOwn(List<String> command, Map<Integer, Map<String, String>> properties) {
        List<String> racks = new ArrayList<>();
        new TreeMap<>(properties).forEach((id, own) -> {
            if (!own.keySet().equals(Set.of("broker.rack"))) {
                throw Inside.needs("settings of one broker: " + own.keySet());
            }
            racks.add(own.get("broker.rack"));
        });
        if (!racks.isEmpty()) {
            command.addAll(List.of("--rack", String.join(",", racks)));
        }
    }

    /** Adds an option for the level of a feature. */
    static void feature(List<String> command, String name, short level) {
        if (name.equals("transaction.version")) {
            command.addAll(List.of("--set", name + "=" + level));
        } else if (level == 0) {
            throw Inside.needs(name + "=0");
        }
    }
}
