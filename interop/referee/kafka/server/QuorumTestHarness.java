package kafka.server;

import kafka.integration.KafkaServerTestHarness;
import kafka.utils.Logging;
import kafka.utils.TestInfoUtils;

import org.apache.kafka.clients.consumer.GroupProtocol;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.metadata.storage.Formatter;
import org.apache.kafka.server.common.MetadataVersion;
import org.apache.kafka.server.fault.MockFaultHandler;

import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.TestInfo;
import org.junit.jupiter.params.provider.Arguments;

import scala.Option;
import scala.collection.Seq;
import scala.jdk.javaapi.CollectionConverters;

import java.util.Arrays;
import java.util.List;
import java.util.Properties;
import java.util.stream.Stream;

import strata.Harness;
import strata.Inside;

/**
 * Gives brokers to tests of Kafka's, in place of the class of this name in its tests, from which they inherit: here
 * the brokers are those of a strata serve.
 */
public abstract class QuorumTestHarness implements Logging {
    private final SecurityProtocol controllerListenerSecurityProtocol = SecurityProtocol.PLAINTEXT;
    private final MockFaultHandler faultHandler = new MockFaultHandler("strata");
    private final QuorumTestHarnessFaultHandlerFactory faultHandlerFactory = new QuorumTestHarnessFaultHandlerFactory(faultHandler);
    private String logIdent = "";
    private TestInfo testInfo;
    private Harness harness;

    public static Stream<Arguments> getTestGroupProtocolParametersAll() {
        return QuorumTestHarness$.MODULE$.getTestGroupProtocolParametersAll();
    }

    public static Stream<Arguments> getTestGroupProtocolParametersClassicGroupProtocolOnly() {
        return QuorumTestHarness$.MODULE$.getTestGroupProtocolParametersClassicGroupProtocolOnly();
    }

    public static Stream<Arguments> getTestGroupProtocolParametersConsumerGroupProtocolOnly() {
        return QuorumTestHarness$.MODULE$.getTestGroupProtocolParametersConsumerGroupProtocolOnly();
    }

    @Override
    public String logIdent() {
        return logIdent;
    }

    @Override
    public void logIdent_$eq(String ident) {
        logIdent = ident;
    }

    public SecurityProtocol controllerListenerSecurityProtocol() {
        return controllerListenerSecurityProtocol;
    }

    public Seq<Properties> kraftControllerConfigs(TestInfo test) {
        return seq(List.of(new Properties()));
    }

    public MetadataVersion metadataVersion() {
        return MetadataVersion.latestTesting();
    }

    public QuorumImplementation implementation() {
        throw Inside.needs("Kafka's controller");
    }

    public void implementation_$eq(QuorumImplementation implementation) {
        throw Inside.needs("Kafka's controller");
    }

    public Option<GroupProtocol> maybeGroupProtocolSpecified() {
        return TestInfoUtils.maybeGroupProtocolSpecified(testInfo);
    }

    public GroupProtocol groupProtocolFromTestParameters() {
        return maybeGroupProtocolSpecified().get();
    }

    public ControllerServer controllerServer() {
        return harness.controller();
    }

    public Seq<ControllerServer> controllerServers() {
        return seq(List.of(controllerServer()));
    }

    public QuorumTestHarnessFaultHandlerFactory faultHandlerFactory() {
        return faultHandlerFactory;
    }

    public MockFaultHandler faultHandler() {
        return faultHandler;
    }

    public void addFormatterSettings(Formatter formatter) {
        // nothing that is formatted has any
    }

    public Seq<SecurityProtocol> extraControllerSecurityProtocols() {
        return seq(List.of());
    }

    public KRaftQuorumImplementation newKRaftQuorum(TestInfo test, Properties properties) {
        throw Inside.needs("Kafka's controller");
    }

    public void shutdownKRaftController() {
        throw Inside.needs("Kafka's controller");
    }

    @BeforeEach
    public void setUp(TestInfo test) {
        testInfo = test;
        List<Properties> ofController = CollectionConverters.asJava(kraftControllerConfigs(test));
        harness = new Harness(ofController.get(0), this::addFormatterSettings);
    }

    @AfterEach
    public void tearDown() {
        if (harness != null) {
            harness.stop();
        }
    }

    /** A broker, which is there with all others of the test when the first one is created. */
    public KafkaBroker createBroker(KafkaConfig config, Time time, boolean startup, Option<String> threadNamePrefix) {
        List<KafkaConfig> all = List.of(config);
        if (this instanceof KafkaServerTestHarness h) {
            all = List.copyOf(CollectionConverters.asJava(h.configs()));
            boolean[] alive = new boolean[all.size() + 1]; // by their ids, which may begin with 1 here
            Arrays.fill(alive, true);
            h.alive_$eq(alive);
        }
        return harness.broker(config, all);
    }

    public Time createBroker$default$2() {
        return Time.SYSTEM;
    }

    public boolean createBroker$default$3() {
        return true;
    }

    public Option<String> createBroker$default$4() {
        return Option.empty();
    }

    private static <T> Seq<T> seq(List<T> list) {
        return CollectionConverters.asScala(list);
    }
}
