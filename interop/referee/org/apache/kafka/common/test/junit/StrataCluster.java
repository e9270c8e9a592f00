package org.apache.kafka.common.test.junit;

import kafka.server.ControllerServer;
import kafka.server.KafkaBroker;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.GroupProtocol;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.test.ClusterInstance;
import org.apache.kafka.common.test.JaasUtils;
import org.apache.kafka.test.TestUtils;
import org.apache.kafka.common.test.api.ClusterConfig;
import org.apache.kafka.common.test.api.Type;
import org.apache.kafka.server.common.Feature;
import org.apache.kafka.server.fault.FaultHandlerException;

import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;

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
    private final List<String> addresses = new ArrayList<>(); // of brokers 1, 2, ...
    private Process process;
    private Path home;
    private Admin admin;
    private boolean stopped;

    StrataCluster(ClusterConfig config, Type type) {
        this.config = config;
        this.type = type;
    }

    @Override
    public synchronized void start() {
        if (process != null) {
            return;
        }
        try {
            home = Files.createTempDirectory("referee");
            File out = home.resolve("out").toFile();
            process = new ProcessBuilder(command()).redirectError(out).start();
            String ready = process.inputReader().readLine();
            if (ready == null || !ready.startsWith("ready ")) {
                process.waitFor();
                throw Inside.needs("strata serve to start: " + Files.readString(out.toPath()).lines().findFirst().orElse(""));
            }
            for (String address : ready.substring("ready ".length()).split(",")) {
                addresses.add(address);
                int id = addresses.size();
                brokers.put(id, Inside.broker(this, id, port(address)));
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    /** The strata serve that the test's annotations ask for. */
    private List<String> command() throws IOException {
        List<String> c = new ArrayList<>(List.of(System.getProperty("referee.strata"), "serve", "--memory"));
        if (config.numDisksPerBroker() != 1) {
            throw Inside.needs("several directories for each broker");
        }
        c.addAll(List.of("--brokers", String.valueOf(config.numBrokers())));
        Settings.add(c, config.serverProperties());
        Settings.addOwn(c, config.perServerOverrideProperties());
        for (Map.Entry<Feature, Short> f : config.features().entrySet()) {
            Settings.feature(c, f.getKey().featureName(), f.getValue());
        }
        switch (config.brokerSecurityProtocol()) {
            case PLAINTEXT:
                break;
            case SASL_PLAINTEXT:
                Path users = home.resolve("users");
                Files.writeString(users, JaasUtils.KAFKA_PLAIN_ADMIN + "=" + JaasUtils.KAFKA_PLAIN_ADMIN_PASSWORD + "\n"
                    + JaasUtils.KAFKA_PLAIN_USER1 + "=" + JaasUtils.KAFKA_PLAIN_USER1_PASSWORD + "\n");
                c.addAll(List.of("--users", users.toString()));
                break;
            default:
                throw Inside.needs(config.brokerSecurityProtocol().name);
        }
        return c;
    }

    private static int port(String address) {
        return Integer.parseInt(address.substring(address.lastIndexOf(':') + 1));
    }

    /** An Admin for what the stand-ins of brokers are asked, until stop. */
    synchronized Admin asking() {
        if (admin == null) {
            admin = admin(Map.of());
        }
        return admin;
    }

    @Override
    public synchronized void stop() {
        if (process == null || stopped) {
            return;
        }
        stopped = true;
        if (admin != null) {
            admin.close();
        }
        process.destroy();
        try {
            if (!process.waitFor(20, TimeUnit.SECONDS)) {
                process.destroyForcibly().waitFor();
                throw new AssertionError("strata serve does not stop");
            }
            String said = Files.readString(home.resolve("out"));
            Files.delete(home.resolve("out"));
            Files.deleteIfExists(home.resolve("users"));
            Files.delete(home);
            if (process.exitValue() != 0 || said.contains("panic:")) {
                throw new AssertionError("strata serve ended with " + process.exitValue() + ": " + said);
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    @Override
    public synchronized boolean started() {
        return process != null;
    }

    @Override
    public synchronized boolean stopped() {
        return stopped;
    }

    @Override
    public void shutdownBroker(int id) {
        throw Inside.needs("a broker that is shut down by itself");
    }

    @Override
    public void startBroker(int id) {
        throw Inside.needs("a broker that is started by itself");
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
        return String.join(",", addresses);
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
        return addresses.stream().map(StrataCluster::port).toList();
    }

    @Override
    public String clusterId() {
        try {
            return asking().describeCluster().clusterId().get();
        } catch (Exception e) {
            throw new IllegalStateException(e);
        }
    }

    @Override
    public Map<Integer, KafkaBroker> brokers() {
        return brokers;
    }

    @Override
    public Map<Integer, ControllerServer> controllers() {
        return Map.of(CONTROLLER, Inside.controller(this));
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
        TestUtils.waitForCondition(() -> Inside.partitions(this, topic).filter(n -> n == partitions).isPresent(),
            60000L, topic + " is not there");
    }

    @Override
    public void waitTopicDeletion(String topic) throws InterruptedException {
        TestUtils.waitForCondition(() -> Inside.partitions(this, topic).isEmpty(), 60000L, topic + " is still there");
    }

    @Override
    public void ensureConsistentMetadata(Collection<KafkaBroker> brokers, Collection<ControllerServer> controllers) {
        // the brokers of a strata serve have one copy
    }
}
