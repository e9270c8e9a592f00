package strata;

import kafka.cluster.Partition;
import kafka.log.LogManager;
import kafka.network.SocketServer;
import kafka.raft.KafkaRaftManager;
import kafka.server.BrokerServer;
import kafka.server.ClientRequestQuotaManager;
import kafka.server.ControllerServer;
import kafka.server.KafkaApis;
import kafka.server.KafkaBroker;
import kafka.server.KafkaConfig;
import kafka.server.QuotaFactory.QuotaManagers;
import kafka.server.ReplicaManager;
import kafka.server.SharedServer;

import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.ListTopicsOptions;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.internals.Plugin;
import org.apache.kafka.common.metrics.Quota;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.requests.MetadataRequest;
import org.apache.kafka.common.requests.MetadataResponse;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.token.delegation.DelegationToken;
import org.apache.kafka.common.security.token.delegation.internals.DelegationTokenCache;
import org.apache.kafka.controller.Controller;
import org.apache.kafka.controller.ResultOrError;
import org.apache.kafka.coordinator.group.GroupCoordinator;
import org.apache.kafka.image.loader.MetadataLoader;
import org.apache.kafka.metadata.BrokerState;
import org.apache.kafka.metadata.KRaftMetadataCache;
import org.apache.kafka.metadata.LeaderAndIsr;
import org.apache.kafka.metadata.LeaderRecoveryState;
import org.apache.kafka.metadata.storage.Formatter;
import org.apache.kafka.raft.LogOffsetMetadata;
import org.apache.kafka.raft.RaftLog;
import org.apache.kafka.server.BrokerLifecycleManager;
import org.apache.kafka.server.authorizer.AclCreateResult;
import org.apache.kafka.server.authorizer.AclDeleteResult;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.Authorizer;
import org.apache.kafka.server.quota.ClientQuotaManager;
import org.apache.kafka.server.quota.ControllerMutationQuotaManager;
import org.apache.kafka.storage.internals.log.UnifiedLog;

import org.mockito.Mockito;
import org.opentest4j.TestAbortedException;

import scala.Option;
import scala.Some;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.stream.Collectors;

/**
 * Stands in for what is inside of Kafka's broker and controller, as far as a client can find it out. A test that
 * asks for more is about the inside: it is aborted.
 */
public final class Inside {
    private Inside() { }

    public static TestAbortedException needs(String what) {
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

    /** A broker, with a configuration but for its id. */
    public static KafkaBroker broker(Served cluster, int id, Map<String, ?> properties) {
        Map<String, Object> own = new HashMap<>(properties);
        own.put("node.id", String.valueOf(id));
        own.remove("broker.id");
        KafkaConfig config = new KafkaConfig(own, false);
        Function<Object[], Object> port = args -> cluster.port(id, (ListenerName) args[0]);
        MetadataLoader loader = standIn(MetadataLoader.class, Map.of("lastAppliedOffset", args -> 0L));
        SharedServer shared = standIn(SharedServer.class, Map.of("loader", args -> loader));
        SocketServer sockets = standIn(SocketServer.class, Map.of("boundPort", port));
        KRaftMetadataCache cache = metadata(cluster);
        Properties compacted = new Properties();
        compacted.put("cleanup.policy", "compact");
        GroupCoordinator groups = standIn(GroupCoordinator.class, Map.of("groupMetadataTopicConfigs", args -> compacted));
        QuotaManagers quotas = quotas(cluster);
        Plugin<?> acls = acls(cluster);
        KafkaApis apis = standIn(KafkaApis.class, Map.of(
            "metadataCache", args -> cache,
            "brokerId", args -> id,
            "clusterId", args -> cluster.clusterId(),
            "quotas", args -> quotas,
            "authorizerPlugin", args -> cluster.authorizes() ? Some.apply(acls) : Option.empty()));
        LogManager logs = standIn(LogManager.class, Map.of("getLog", args -> log(cluster, id, (TopicPartition) args[0]), "getLog$default$2", args -> false));
        BrokerLifecycleManager life = standIn(BrokerLifecycleManager.class, Map.of(
            "initialUnfenceFuture", args -> CompletableFuture.completedFuture(null)));
        ReplicaManager replicas = standIn(ReplicaManager.class, Map.of(
            "logManager", args -> logs,
            "metadataCache", args -> cache,
            "localLog", args -> log(cluster, id, (TopicPartition) args[0]),
            "onlinePartition", args -> partition(cluster, id, (TopicPartition) args[0])));
        DelegationTokenCache tokens = standIn(DelegationTokenCache.class, Map.of("tokens", args ->
            get(cluster.asking().describeDelegationToken().delegationTokens()).stream().map(DelegationToken::tokenInfo).toList()));
        return standIn(BrokerServer.class, Map.ofEntries(
            Map.entry("authorizerPlugin", args -> cluster.authorizes() ? Some.apply(acls) : Option.empty()),
            Map.entry("config", args -> config),
            Map.entry("clusterId", args -> cluster.clusterId()),
            Map.entry("brokerState", args -> cluster.runs(id) ? BrokerState.RUNNING : BrokerState.NOT_RUNNING),
            Map.entry("isShutdown", args -> !cluster.runs(id)),
            Map.entry("startup", args -> {
                cluster.run(id, true); // with the others if it is the first time
                return null;
            }),
            Map.entry("shutdown", args -> {
                if (args.length > 0 || !cluster.encrypted()) {
                    cluster.run(id, false);
                } // else it is with the cluster, soon
                return null;
            }),
            Map.entry("awaitShutdown", args -> null),
            Map.entry("boundPort", port),
            Map.entry("socketServer", args -> sockets),
            Map.entry("sharedServer", args -> shared),
            Map.entry("metadataCache", args -> cache),
            Map.entry("dataPlaneRequestProcessor", args -> apis),
            Map.entry("replicaManager", args -> replicas),
            Map.entry("logManager", args -> logs),
            Map.entry("lifecycleManager", args -> life),
            Map.entry("quotaManagers", args -> quotas),
            Map.entry("tokenCache", args -> tokens),
            Map.entry("groupCoordinator", args -> groups)));
    }

    /** The controller, with a configuration. Here a broker is asked what it is asked. */
    public static ControllerServer controller(Served cluster, Map<String, ?> properties) {
        SocketServer sockets = standIn(SocketServer.class, Map.of("boundPort", args -> cluster.somePort()));
        RaftLog log = standIn(RaftLog.class, Map.of("endOffset", args -> new LogOffsetMetadata(0)));
        KafkaRaftManager<?> raft = standIn(KafkaRaftManager.class, Map.of("raftLog", args -> log));
        Controller controller = standIn(Controller.class, Map.of(
            "isActive", args -> true,
            "findTopicIds", args -> CompletableFuture.completedFuture(((Collection<?>) args[1]).stream().collect(Collectors.toMap(name -> name,
                name -> new ResultOrError<>(ids(cluster).get(name))))),
            "findAllTopicIds", args -> CompletableFuture.completedFuture(ids(cluster))));
        Plugin<?> acls = acls(cluster);
        QuotaManagers quotas = quotas(cluster);
        return standIn(ControllerServer.class, Map.of(
            "config", args -> new KafkaConfig(properties, false),
            "socketServer", args -> sockets,
            "quotaManagers", args -> quotas,
            "authorizerPlugin", args -> cluster.authorizes() ? Some.apply(acls) : Option.empty(),
            "raftManager", args -> raft,
            "controller", args -> controller));
    }

    /** A request of somebody's, for an authorizer that looks at nothing else of it. */
    static AuthorizableRequestContext request(KafkaPrincipal who) {
        return standIn(AuthorizableRequestContext.class, Map.of("principal", args -> who, "requestType", args -> (int) ApiKeys.ALTER_USER_SCRAM_CREDENTIALS.id));
    }

    /** A formatter that is told the credentials of SCRAM users, and a cluster's id that nobody asks for. */
    static Formatter formatter(Consumer<Object[]> scram) {
        Formatter[] itself = new Formatter[1];
        itself[0] = standIn(Formatter.class, Map.of(
            "setClusterId", args -> itself[0],
            "setScramArguments", args -> {
                scram.accept(args);
                return itself[0];
            }));
        return itself[0];
    }

    private static Plugin<?> acls(Served cluster) {
        Authorizer a = standIn(Authorizer.class, Map.of(
            "acls", args -> get(cluster.asking().describeAcls((AclBindingFilter) args[0]).values()),
            "createAcls", args -> {
                List<?> bindings = (List<?>) args[1];
                get(cluster.asking().createAcls(bindings.stream().map(AclBinding.class::cast).toList()).all());
                return bindings.stream().map(b -> CompletableFuture.completedFuture(AclCreateResult.SUCCESS)).toList();
            },
            "deleteAcls", args -> {
                List<?> filters = (List<?>) args[1];
                return filters.stream().map(AclBindingFilter.class::cast).map(f -> {
                    Collection<AclBinding> gone = get(cluster.asking().deleteAcls(List.of(f)).all());
                    return CompletableFuture.completedFuture(new AclDeleteResult(
                        gone.stream().map(AclDeleteResult.AclBindingDeleteResult::new).toList()));
                }).toList();
            }));
        return standIn(Plugin.class, Map.of("get", args -> a));
    }

    private static <T> T get(Future<T> future) {
        try {
            return future.get();
        } catch (ExecutionException | InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    /** The bounds that clients have, of those that are asked for. */
    private static QuotaManagers quotas(Served cluster) {
        return new QuotaManagers(
            quota(ClientQuotaManager.class, cluster, "consumer_byte_rate"), quota(ClientQuotaManager.class, cluster, "producer_byte_rate"),
            quota(ClientRequestQuotaManager.class, cluster, "request_percentage"),
            quota(ControllerMutationQuotaManager.class, cluster, "controller_mutation_rate"),
            null, null, null, Optional.empty());
    }

    private static <T extends ClientQuotaManager> T quota(Class<T> type, Served cluster, String key) {
        return standIn(type, Map.of("quota", args -> bound(cluster, key,
            args[0] instanceof KafkaPrincipal p ? p.getName() : (String) args[0], (String) args[1])));
    }

    /** The bound of a client, from the most specific of the entities that it is: as Kafka looks for it. */
    private static Quota bound(Served cluster, String key, String user, String client) {
        Map<ClientQuotaEntity, Map<String, Double>> all = get(cluster.asking().describeClientQuotas(ClientQuotaFilter.all()).entities());
        List<String> users = Arrays.asList(user, null);
        List<String> clients = Arrays.asList(client, null);
        List<Map<String, String>> entities = new ArrayList<>();
        users.forEach(u -> clients.forEach(c -> entities.add(entity("user", u, "client-id", c))));
        users.forEach(u -> entities.add(entity("user", u)));
        clients.forEach(c -> entities.add(entity("client-id", c)));
        // a user of a name comes before the default user, with a client or without
        entities.sort(Comparator.comparingInt(e -> !e.containsKey("user") ? 2 : e.get("user") == null ? 1 : 0));
        return entities.stream().map(ClientQuotaEntity::new).map(all::get).filter(q -> q != null && q.containsKey(key)).findFirst()
            .map(q -> Quota.upperBound(q.get(key))).orElse(Quota.upperBound(Long.MAX_VALUE));
    }

    private static Map<String, String> entity(String... of) {
        Map<String, String> e = new HashMap<>();
        for (int i = 0; i < of.length; i += 2) {
            e.put(of[i], of[i + 1]);
        }
        return e;
    }

    /** A replica that a broker has, with the offsets that its leader tells. */
    private static Option<UnifiedLog> log(Served cluster, int id, TopicPartition p) {
        boolean there = cluster.runs(id) && describe(cluster, p.topic()).filter(d -> p.partition() < d.partitions().size()
            && d.partitions().get(p.partition()).replicas().stream().anyMatch(n -> n.id() == id)).isPresent();
        if (!there) {
            return Option.empty();
        }
        Function<Object[], Object> first = args -> offset(cluster, p, OffsetSpec.earliest(), IsolationLevel.READ_UNCOMMITTED);
        Function<Object[], Object> end = args -> offset(cluster, p, OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED);
        Function<Object[], Object> stable = args -> offset(cluster, p, OffsetSpec.latest(), IsolationLevel.READ_COMMITTED);
        return Some.apply(standIn(UnifiedLog.class, Map.of("logStartOffset", first, "logEndOffset", end, "highWatermark", end, "lastStableOffset", stable)));
    }

    /** A partition of which a broker has a replica. */
    private static Option<Partition> partition(Served cluster, int id, TopicPartition p) {
        Option<UnifiedLog> log = log(cluster, id, p);
        if (log.isEmpty()) {
            return Option.empty();
        }
        int leader = leader(cluster, p.topic(), p.partition()).map(LeaderAndIsr::leader).orElse(-1);
        return Some.apply(standIn(Partition.class, Map.of(
            "getLeaderEpoch", args -> leaderEpoch(cluster, p),
            "leaderReplicaIdOpt", args -> leader < 0 ? Option.empty() : Some.apply(leader),
            "leaderLogIfLocal", args -> leader == id ? log : Option.empty())));
    }

    private static int leaderEpoch(Served cluster, TopicPartition p) {
        MetadataResponse r = (MetadataResponse) cluster.ask(MetadataRequest.Builder.forTopicNames(List.of(p.topic()), false).build());
        return r.data().topics().find(p.topic()).partitions().stream().filter(of -> of.partitionIndex() == p.partition())
            .findFirst().orElseThrow().leaderEpoch();
    }

    private static long offset(Served cluster, TopicPartition p, OffsetSpec at, IsolationLevel isolation) {
        return get(cluster.asking().listOffsets(Map.of(p, at), new ListOffsetsOptions(isolation)).partitionResult(p)).offset();
    }

    private static KRaftMetadataCache metadata(Served cluster) {
        return standIn(KRaftMetadataCache.class, Map.of(
            "hasAliveBroker", args -> (Integer) args[0] >= cluster.first() && (Integer) args[0] < cluster.first() + cluster.ports().size() && cluster.runs((Integer) args[0]),
            "getPartitionLeaderEndpoint", args -> describe(cluster, (String) args[0]).map(d -> d.partitions().get((Integer) args[1]).leader()),
            "getPartitionReplicaEndpoints", args -> replicas(cluster, (TopicPartition) args[0]),
            "numPartitions", args -> partitions(cluster, (String) args[0]),
            "contains", args -> partitions(cluster, (String) args[0]).isPresent(),
            "getAllTopics", args -> new HashSet<>(ids(cluster).keySet()),
            "topicNamesToIds", args -> ids(cluster),
            "getTopicId", args -> ids(cluster).getOrDefault((String) args[0], Uuid.ZERO_UUID),
            "getLeaderAndIsr", args -> leader(cluster, (String) args[0], (Integer) args[1])));
    }

    private static Map<Integer, Node> replicas(Served cluster, TopicPartition p) {
        return describe(cluster, p.topic()).orElseThrow().partitions().get(p.partition()).replicas().stream()
            .filter(n -> cluster.runs(n.id())).collect(Collectors.toMap(Node::id, n -> n));
    }

    public static Optional<Integer> partitions(Served cluster, String topic) {
        return describe(cluster, topic).map(d -> d.partitions().size());
    }

    private static Optional<LeaderAndIsr> leader(Served cluster, String topic, int partition) {
        return describe(cluster, topic).filter(d -> partition < d.partitions().size()).map(d -> {
            TopicPartitionInfo p = d.partitions().get(partition);
            int leader = p.leader() == null ? -1 : p.leader().id();
            List<Integer> isr = p.isr().stream().map(Node::id).toList();
            return new LeaderAndIsr(leader, 0, isr, LeaderRecoveryState.RECOVERED, 0);
        });
    }

    private static Optional<TopicDescription> describe(Served cluster, String topic) {
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

    private static Map<String, Uuid> ids(Served cluster) {
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
