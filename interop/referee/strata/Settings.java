package strata;

import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;
import org.apache.kafka.server.authorizer.Authorizer;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;

/** Says to a strata serve what a test's annotations say to Kafka's broker. What cannot be said aborts the test. */
final class Settings {
    private Settings() { }

    /** What each of Kafka's processes has of its own, and where the others are. */
    private static final Set<String> OF_THE_PROCESS = Set.of("node.id", "broker.id", "log.dir", "log.dirs", "metadata.log.dir",
        "process.roles", "controller.quorum.voters", "controller.listener.names", "server.max.startup.time.ms",
        "listeners", "advertised.listeners", "listener.security.protocol.map", "inter.broker.listener.name",
        "security.inter.broker.protocol", "num.network.threads", "background.threads",
        "controlled.shutdown.retry.backoff.ms", "controller.socket.timeout.ms", "replica.socket.timeout.ms");

    static boolean ofTheProcess(String name) {
        return OF_THE_PROCESS.contains(name) || name.startsWith("ssl.") || name.contains("sasl.");
    }

    /** How often Kafka does what is done at once here, whatever the value is. */
    private static final Set<String> HOW_OFTEN = Set.of(
        "group.consumer.regex.refresh.interval.ms", // an expression follows what there is
        "leader.imbalance.check.interval.seconds",
        "log.initial.task.delay.ms",
        "log.retention.check.interval.ms",
        "log.segment.delete.delay.ms",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        "transaction.remove.expired.transaction.cleanup.interval.ms");

    /** What tests set to be quick, or to what is so anyway: they do not ask what it is. */
    private static final Set<String> WITHOUT_EFFECT = Set.of(
        "auto.leader.rebalance.enable=false", // partitions are led by their first replica that lives
        "connections.max.reauth.ms=1500", // who has to authenticate again is not what these tests are about
        "controlled.shutdown.enable=false",
        "controlled.shutdown.enable=true",
        "controller.quota.window.num=10", // one less than there are
        "controller.quota.window.size.seconds=1",
        "delegation.token.expiry.time.ms=" + Long.MAX_VALUE, // no test outlives a token
        "delegation.token.max.lifetime.ms=" + Long.MAX_VALUE,
        "delete.topic.enable=false", // one test tries to, and is listed
        "delete.topic.enable=true",
        "group.coordinator.rebalance.protocols=classic,consumer",
        "fetch.max.bytes=2147483647", // no bound, as here
        "group.share.persister.class.name=", // which keeps nothing
        "group.share.persister.class.name=org.apache.kafka.server.share.persister.DefaultStatePersister",
        "group.streams.assignment.interval.ms=0", // there are none
        "log.cleaner.dedupe.buffer.size=2097152",
        "log.cleaner.dedupe.buffer.size=2097154",
        "replica.fetch.max.bytes=1",
        "unclean.leader.election.interval.ms=10",
        "unstable.api.versions.enable=false",
        "unstable.api.versions.enable=true",
        "unstable.feature.versions.enable=false",
        "unstable.feature.versions.enable=true");

    /** Whether an authorizer decides as Kafka's does. */
    static boolean isKafkas(String authorizer) {
        try {
            return Class.forName(authorizer)
                .getMethod("authorize", AuthorizableRequestContext.class, List.class).getDeclaringClass() == StandardAuthorizer.class;
        } catch (ReflectiveOperationException e) {
            throw Inside.needs(authorizer);
        }
    }

    /** Whether an authorizer of a test's, which looks at nothing but who it is, lets somebody do everything. */
    static boolean allows(String authorizer, KafkaPrincipal who) {
        AuthorizableRequestContext context = Inside.request(who);
        Action any = new Action(AclOperation.ALTER, new ResourcePattern(ResourceType.CLUSTER, "kafka-cluster", PatternType.LITERAL), 1, true, true);
        try {
            Authorizer a = (Authorizer) Class.forName(authorizer).getDeclaredConstructor().newInstance();
            return a.authorize(context, List.of(any)).get(0) == AuthorizationResult.ALLOWED;
        } catch (ReflectiveOperationException e) {
            throw Inside.needs(authorizer);
        }
    }

    /** Adds options for properties of server.properties. */
    static void add(List<String> command, Map<String, String> properties) {
        new TreeMap<>(properties).forEach((name, value) -> {
            String p = name + "=" + value;
            switch (name) {
                case "authorizer.class.name" -> command.add("--authorize");
                case "super.users" -> command.addAll(List.of("--super-users", value.replace(';', ',')));
                default -> {
                    if (!WITHOUT_EFFECT.contains(p) && !HOW_OFTEN.contains(name)) {
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
