package org.apache.kafka.common.test.junit;

import kafka.server.ControllerServer;
import kafka.server.KafkaBroker;

import org.apache.kafka.clients.consumer.GroupProtocol;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.test.ClusterInstance;
import org.apache.kafka.common.test.JaasUtils;
import org.apache.kafka.test.TestUtils;
import org.apache.kafka.common.test.api.ClusterConfig;
import org.apache.kafka.common.test.api.Type;
import org.apache.kafka.server.fault.FaultHandlerException;

import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;

import strata.Inside;
import strata.Served;

/** A strata serve, with what Kafka's tests ask of a cluster. What it cannot be aborts the test. */
final class StrataCluster implements ClusterInstance {
    private static final int CONTROLLER = 3000;

    private final ClusterConfig config;
    private final Type type;
    private final Map<Integer, KafkaBroker> brokers = new TreeMap<>() {
        @Override
        public KafkaBroker get(Object id) {
            if (!containsKey(id)) {
                throw Inside.needs("a broker with the id " + id);
            }
            return super.get(id);
        }
    };
    private final Served served;

    StrataCluster(ClusterConfig config, Type type) {
        this.config = config;
        this.type = type;
        served = new Served(config.numBrokers(), config.serverProperties(), config.brokerSecurityProtocol());
    }

    @Override
    public synchronized void start() {
        if (served.started()) {
            return;
        }
        if (config.numDisksPerBroker() != 1) {
            throw Inside.needs("several directories for each broker");
        }
        config.perServerOverrideProperties().forEach(served::own);
        config.features().forEach((feature, level) -> served.feature(feature.featureName(), level));
        if (config.brokerSecurityProtocol() == SecurityProtocol.SASL_PLAINTEXT) {
            served.user(JaasUtils.KAFKA_PLAIN_ADMIN, JaasUtils.KAFKA_PLAIN_ADMIN_PASSWORD);
            served.user(JaasUtils.KAFKA_PLAIN_USER1, JaasUtils.KAFKA_PLAIN_USER1_PASSWORD);
        }
        served.start();
        for (int id = served.first(); id < served.first() + config.numBrokers(); id++) {
            brokers.put(id, Inside.broker(served, id, properties()));
        }
    }

    /** What a broker's configuration has, but for its id. */
    private Map<String, String> properties() {
        Map<String, String> p = new HashMap<>(Map.of(
            "process.roles", "broker",
            "controller.quorum.voters", CONTROLLER + "@localhost:1",
            "controller.listener.names", "CONTROLLER",
            "listener.security.protocol.map", "CONTROLLER:PLAINTEXT,EXTERNAL:" + config.brokerSecurityProtocol(),
            "listeners", "EXTERNAL://localhost:0",
            "inter.broker.listener.name", "EXTERNAL"));
        p.putAll(config.serverProperties());
        return p;
    }

    @Override
    public void stop() {
        served.stop();
    }

    @Override
    public boolean started() {
        return served.started();
    }

    @Override
    public boolean stopped() {
        return served.stopped();
    }

    @Override
    public void shutdownBroker(int id) {
        served.run(id, false);
    }

    @Override
    public void startBroker(int id) {
        served.run(id, true);
    }

    @Override
    public Type type() {
        return type;
    }

    @Override
    public ClusterConfig config() {
        return config;
    }

    @Override
    public String bootstrapServers() {
        return served.bootstrapServers();
    }

    @Override
    public String bootstrapControllers() {
        throw Inside.needs("listeners of controllers");
    }

    @Override
    public ListenerName clientListener() {
        return config.brokerListenerName();
    }

    @Override
    public ListenerName controllerListenerName() {
        throw Inside.needs("listeners of controllers");
    }

    @Override
    public List<Integer> controllerBoundPorts() {
        throw Inside.needs("listeners of controllers");
    }

    @Override
    public List<Integer> brokerBoundPorts() {
        return served.ports();
    }

    @Override
    public String clusterId() {
        return served.clusterId();
    }

    @Override
    public Map<Integer, KafkaBroker> brokers() {
        return brokers;
    }

    @Override
    public Map<Integer, ControllerServer> controllers() {
        return Map.of(CONTROLLER, Inside.controller(served, properties()));
    }

    @Override
    public Set<Integer> controllerIds() {
        return Set.of(CONTROLLER);
    }

    @Override
    public Set<GroupProtocol> supportedGroupProtocols() {
        return Set.of(GroupProtocol.CLASSIC, GroupProtocol.CONSUMER);
    }

    @Override
    public Optional<FaultHandlerException> firstFatalException() {
        return Optional.empty();
    }

    @Override
    public Optional<FaultHandlerException> firstNonFatalException() {
        return Optional.empty();
    }

    @Override
    public void waitForReadyBrokers() {
        // they are when start returns
    }

    @Override
    public void createTopicWithAssignment(String topic, Map<Integer, List<Integer>> replicas) throws InterruptedException {
        replicas.values().forEach(ids -> ids.forEach(brokers::get)); // which are there
        ClusterInstance.super.createTopicWithAssignment(topic, replicas);
    }

    @Override
    public void waitTopicCreation(String topic, int partitions) throws InterruptedException {
        TestUtils.waitForCondition(() -> Inside.partitions(served, topic).filter(n -> n == partitions).isPresent(),
            60000L, topic + " is not there");
    }

    @Override
    public void waitTopicDeletion(String topic) throws InterruptedException {
        TestUtils.waitForCondition(() -> Inside.partitions(served, topic).isEmpty(), 60000L, topic + " is still there");
    }

    @Override
    public void ensureConsistentMetadata(Collection<KafkaBroker> brokers, Collection<ControllerServer> controllers) {
        // the brokers of a strata serve have one copy
    }
}
