package strata;

import kafka.server.ControllerServer;
import kafka.server.KafkaBroker;
import kafka.server.KafkaConfig;

import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.KafkaPrincipalBuilder;
import org.apache.kafka.common.security.auth.PlaintextAuthenticationContext;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.metadata.storage.Formatter;

import java.net.InetAddress;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.function.Consumer;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;

import javax.security.auth.login.AppConfigurationEntry;
import javax.security.auth.login.Configuration;

/** The brokers of a test that makes each from a KafkaConfig: those of one strata serve. */
public final class Harness {
    private static final Pattern CREDENTIAL = Pattern.compile("\\[name=([^,]*),password=([^,\\]]*)");

    private final Properties ofController;
    private final Consumer<Formatter> format;
    private Served served;
    private List<KafkaConfig> configs;

    public Harness(Properties ofController, Consumer<Formatter> format) {
        this.ofController = ofController;
        this.format = format;
    }

    /** A broker of those that the test has, by its configuration. */
    public KafkaBroker broker(KafkaConfig config, List<KafkaConfig> all) {
        if (served == null) {
            served = serve(all);
            configs = all;
        } else if (!configs.contains(config)) {
            throw Inside.needs("a broker that is started by itself");
        }
        int id = configs.indexOf(config) + served.first();
        return Inside.broker(served, id, config.originals());
    }

    public ControllerServer controller() {
        if (served == null) {
            throw Inside.needs("Kafka's controller");
        }
        return Inside.controller(served, configs.get(0).originals());
    }

    public void stop() {
        if (served != null) {
            served.stop();
        }
    }

    private Served serve(List<KafkaConfig> all) {
        Map<String, String> shared = properties(all.get(0));
        for (KafkaConfig c : all) {
            shared.entrySet().retainAll(properties(c).entrySet());
        }
        ofController.forEach((name, value) -> {
            if (!Settings.ofTheProcess(name.toString())) {
                shared.putIfAbsent(name.toString(), value.toString());
            }
        });
        Map<String, SecurityProtocol> listeners = all.get(0).effectiveListenerSecurityProtocolMap().entrySet().stream()
            .filter(l -> !l.getKey().value().equals("CONTROLLER"))
            .collect(Collectors.toMap(l -> l.getKey().value(), Map.Entry::getValue));
        Set<SecurityProtocol> protocols = Set.copyOf(listeners.values());
        if (protocols.size() != 1) {
            throw Inside.needs("listeners of several protocols: " + protocols);
        }
        SecurityProtocol protocol = protocols.iterator().next();
        String builder = shared.remove("principal.builder.class");
        Served s = new Served(all.size(), shared, protocol);
        for (int i = 0; i < all.size(); i++) {
            Map<String, String> own = properties(all.get(i));
            own.entrySet().removeAll(shared.entrySet());
            own.remove("principal.builder.class");
            if (!own.isEmpty()) {
                s.own(i, own);
            }
        }
        if (protocol == SecurityProtocol.SSL || protocol == SecurityProtocol.SASL_SSL) {
            s.tls(all.get(0).values());
        }
        if (protocol == SecurityProtocol.SASL_PLAINTEXT || protocol == SecurityProtocol.SASL_SSL) {
            users(s);
        } else if (protocol == SecurityProtocol.PLAINTEXT && (builder != null || shared.containsKey("authorizer.class.name"))) {
            String authorizer = shared.get("authorizer.class.name");
            listeners.keySet().forEach(l -> {
                s.principal(l, () -> principal(builder, l).getName());
                KafkaPrincipal p = principal(builder, l);
                if (authorizer != null && !Settings.isKafkas(authorizer) && Settings.allows(authorizer, p)) {
                    s.superUser(p.getName());
                }
            });
        }
        s.start();
        return s;
    }

    /** What a configuration says, but for what each process has of its own, and where its controllers are. */
    private static Map<String, String> properties(KafkaConfig c) {
        Map<String, String> p = new HashMap<>();
        c.originals().forEach((name, value) -> {
            if (!Settings.ofTheProcess(name)) {
                p.put(name, value.toString());
            }
        });
        return p;
    }

    /** Who comes in by a listener that has no security. */
    private static KafkaPrincipal principal(String builder, String listener) {
        if (builder == null) {
            return KafkaPrincipal.ANONYMOUS;
        }
        try {
            KafkaPrincipalBuilder b = (KafkaPrincipalBuilder) Class.forName(builder).getDeclaredConstructor().newInstance();
            return b.build(new PlaintextAuthenticationContext(InetAddress.getLoopbackAddress(), listener));
        } catch (ReflectiveOperationException e) {
            throw Inside.needs("a principal builder " + builder);
        }
    }

    /** Adds the users that a broker would find in its JAAS configuration, and those that it would be formatted with. */
    private void users(Served s) {
        AppConfigurationEntry[] entries = Configuration.getConfiguration().getAppConfigurationEntry("KafkaServer");
        for (AppConfigurationEntry e : entries == null ? new AppConfigurationEntry[0] : entries) {
            if (e.getLoginModuleName().endsWith("Krb5LoginModule")) {
                throw Inside.needs("Kerberos");
            }
            e.getOptions().forEach((name, value) -> {
                if (name.startsWith("user_")) {
                    s.user(name.substring("user_".length()), value.toString());
                }
            });
        }
        format.accept(Inside.formatter(args -> {
            for (Object a : (List<?>) args[0]) {
                Matcher m = CREDENTIAL.matcher(a.toString());
                if (m.find()) {
                    s.user(m.group(1), m.group(2));
                }
            }
        }));
    }
}
