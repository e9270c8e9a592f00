package org.apache.kafka.common.test.junit;

import kafka.network.SocketServer;
import kafka.raft.KafkaRaftManager;
import kafka.server.BrokerServer;
import kafka.server.ControllerServer;
import kafka.server.KafkaBroker;
import kafka.server.KafkaConfig;
import kafka.server.SharedServer;

import org.apache.kafka.clients.admin.ListTopicsOptions;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.internals.Plugin;
import org.apache.kafka.controller.Controller;
import org.apache.kafka.coordinator.group.GroupCoordinator;
import org.apache.kafka.image.loader.MetadataLoader;
import org.apache.kafka.metadata.LeaderAndIsr;
import org.apache.kafka.metadata.LeaderRecoveryState;
import org.apache.kafka.metadata.KRaftMetadataCache;
import org.apache.kafka.raft.LogOffsetMetadata;
import org.apache.kafka.raft.RaftLog;
import org.apache.kafka.server.authorizer.Authorizer;

import org.mockito.Mockito;
import org.opentest4j.TestAbortedException;

import scala.Option;
import scala.Some;

import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.function.Function;

/**
 * Stands in for what is inside of Kafka's broker and controller, as far as a client can find it out. A test that
 * asks for more is about the inside: it is aborted.
 */
final class Inside {
    private Inside() { }

    static TestAbortedException needs(String what) {
        return new TestAbortedException("needs " + what);
    }

    /** An object of a class that answers some of its methods, by their names. */
    private static <T> T standIn(Class<T> type, Map<String, Function<Object[], Object>> answers) {
        return Mockito.mock(type, Mockito.withSettings().stubOnly().defaultAnswer(call -> {
            String name = call.getMethod().getName();
            if (name.equals("toString")) {
                return type.getSimpleName();
            }
            Function<Object[], Object> answer = answers.get(name);
            if (answer == null) {
                throw needs(type.getSimpleName() + "." + name);
            }
            return answer.apply(call.getArguments());
        }));
    }

    static KafkaBroker broker(StrataCluster cluster, int id, int port) {
        KafkaConfig config = config(cluster, id, port);
        MetadataLoader loader = standIn(MetadataLoader.class, Map.of("lastAppliedOffset", args -> 0L));
        SharedServer shared = standIn(SharedServer.class, Map.of("loader", args -> loader));
        SocketServer sockets = standIn(SocketServer.class, Map.of("boundPort", args -> port));
        KRaftMetadataCache cache = metadata(cluster);
        Properties compacted = new Properties();
        compacted.put("cleanup.policy", "compact");
        GroupCoordinator groups = standIn(GroupCoordinator.class, Map.of("groupMetadataTopicConfigs", args -> compacted));
        Authorizer acls = standIn(Authorizer.class, Map.of("acls", args -> acls(cluster, (AclBindingFilter) args[0])));
        Plugin<?> plugin = standIn(Plugin.class, Map.of("get", args -> acls));
        boolean authorizes = cluster.config().serverProperties().containsKey("authorizer.class.name");
        return standIn(BrokerServer.class, Map.of(
            "authorizerPlugin", args -> authorizes ? Some.apply(plugin) : Option.empty(),
            "config", args -> config,
            "clusterId", args -> cluster.clusterId(),
            "isShutdown", args -> cluster.stopped(),
            "boundPort", args -> port,
            "socketServer", args -> sockets,
            "sharedServer", args -> shared,
            "metadataCache", args -> cache,
            "groupCoordinator", args -> groups));
    }

    static ControllerServer controller(StrataCluster cluster) {
        RaftLog log = standIn(RaftLog.class, Map.of("endOffset", args -> new LogOffsetMetadata(0)));
        KafkaRaftManager<?> raft = standIn(KafkaRaftManager.class, Map.of("raftLog", args -> log));
        Controller controller = standIn(Controller.class, Map.of(
            "findAllTopicIds", args -> CompletableFuture.completedFuture(ids(cluster))));
        return standIn(ControllerServer.class, Map.of(
            "authorizerPlugin", args -> Option.empty(), // a broker's will do
            "raftManager", args -> raft,
            "controller", args -> controller));
    }

    private static KafkaConfig config(StrataCluster cluster, int id, int port) {
        Map<String, Object> p = new HashMap<>(Map.of(
            "process.roles", "broker",
            "node.id", id,
            "controller.quorum.voters", "3000@localhost:1",
            "controller.listener.names", "CONTROLLER",
            "listener.security.protocol.map", "CONTROLLER:PLAINTEXT,EXTERNAL:" + cluster.config().brokerSecurityProtocol(),
            "listeners", "EXTERNAL://localhost:" + port,
            "inter.broker.listener.name", "EXTERNAL"));
        p.putAll(cluster.config().serverProperties());
        return new KafkaConfig(p, false);
    }

    private static KRaftMetadataCache metadata(StrataCluster cluster) {
        return standIn(KRaftMetadataCache.class, Map.of(
            "numPartitions", args -> partitions(cluster, (String) args[0]),
            "contains", args -> partitions(cluster, (String) args[0]).isPresent(),
            "getAllTopics", args -> new HashSet<>(ids(cluster).keySet()),
            "topicNamesToIds", args -> ids(cluster),
            "getTopicId", args -> ids(cluster).getOrDefault((String) args[0], Uuid.ZERO_UUID),
            "getLeaderAndIsr", args -> leader(cluster, (String) args[0], (Integer) args[1])));
    }

    static Optional<Integer> partitions(StrataCluster cluster, String topic) {
        return describe(cluster, topic).map(d -> d.partitions().size());
    }

    private static Optional<LeaderAndIsr> leader(StrataCluster cluster, String topic, int partition) {
        return describe(cluster, topic).filter(d -> partition < d.partitions().size()).map(d -> {
            TopicPartitionInfo p = d.partitions().get(partition);
            int leader = p.leader() == null ? -1 : p.leader().id();
            List<Integer> isr = p.isr().stream().map(Node::id).toList();
            return new LeaderAndIsr(leader, 0, isr, LeaderRecoveryState.RECOVERED, 0);
        });
    }

    private static Optional<TopicDescription> describe(StrataCluster cluster, String topic) {
        try {
            return Optional.of(cluster.asking().describeTopics(List.of(topic)).allTopicNames().get().get(topic));
        } catch (ExecutionException e) {
            if (e.getCause() instanceof UnknownTopicOrPartitionException) {
                return Optional.empty();
            }
            throw new IllegalStateException(e);
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    private static Collection<AclBinding> acls(StrataCluster cluster, AclBindingFilter filter) {
        try {
            return cluster.asking().describeAcls(filter).values().get();
        } catch (ExecutionException | InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    private static Map<String, Uuid> ids(StrataCluster cluster) {
        Map<String, Uuid> ids = new HashMap<>();
        try {
            Set<String> names = cluster.asking().listTopics(new ListTopicsOptions().listInternal(true)).names().get();
            cluster.asking().describeTopics(names).allTopicNames().get().forEach((name, d) -> ids.put(name, d.topicId()));
        } catch (ExecutionException | InterruptedException e) {
            throw new IllegalStateException(e);
        }
        return ids;
    }
}
