import java.io.*;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.*;
import javax.security.auth.callback.Callback;
import javax.security.auth.login.AppConfigurationEntry;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.*;
import org.apache.kafka.common.errors.*;
import org.apache.kafka.common.security.auth.AuthenticateCallbackHandler;
import org.apache.kafka.common.security.oauthbearer.*;
import org.apache.kafka.common.serialization.*;

/**
 * Connects with the Java client as lines of its input say, several at a time, and prints "NUMBER WHAT BECAME OF IT" for each. A line is a number,
 * the address, mechanism, user, password, file of the authority, file of the client's certificate, topic, group, number of records, and
 * whether the user is a delegation token, with tabs between them.
 */
public class Logins {
    public static void main(String[] args) throws Exception {
        ExecutorService pool = Executors.newCachedThreadPool();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = in.readLine()) != null; ) {
            String[] l = line.split("\t", -1);
            pool.submit(() -> {
                String became;
                try {
                    became = become(l);
                } catch (Throwable e) {
                    became = say(e);
                }
                synchronized (System.out) { System.out.println(l[0] + " " + became.replace('\n', ' ')); }
            });
        }
        System.exit(0);
    }

    static String say(Throwable e) {
        for (Throwable c = e; c != null; c = c.getCause()) {
            if (c instanceof SaslAuthenticationException) return "not authenticated";
            if (c instanceof SslAuthenticationException || c instanceof org.apache.kafka.common.errors.TimeoutException) return "not connected";
            if (c instanceof AuthorizationException) return "not authorized";
        }
        return e.toString();
    }

    static String become(String[] l) throws Exception {
        String mechanism = l[2], user = l[3], password = l[4], ca = l[5], certificate = l[6], topic = l[7], group = l[8];
        int writes = Integer.parseInt(l[9]);
        Map<String, Object> conf = new HashMap<>();
        conf.put("bootstrap.servers", l[1]);
        conf.put("security.protocol", (mechanism.isEmpty() ? "" : "SASL_") + (ca.isEmpty() ? "PLAINTEXT" : "SSL"));
        conf.put("max.block.ms", 5000);
        if (!ca.isEmpty()) {
            conf.put("ssl.truststore.type", "PEM");
            conf.put("ssl.truststore.location", ca);
        }
        if (!certificate.isEmpty()) {
            conf.put("ssl.keystore.type", "PEM");
            conf.put("ssl.keystore.location", certificate);
        }
        conf.put("sasl.mechanism", mechanism.isEmpty() ? "GSSAPI" : mechanism);
        String module = "org.apache.kafka.common.security.";
        if (mechanism.equals("OAUTHBEARER")) {
            conf.put("sasl.jaas.config", module + "oauthbearer.OAuthBearerLoginModule required token=\"" + password + "\" user=\"" + user + "\";");
            conf.put("sasl.login.callback.handler.class", Given.class);
        } else if (!mechanism.isEmpty()) {
            module += mechanism.equals("PLAIN") ? "plain.PlainLoginModule" : "scram.ScramLoginModule";
            conf.put("sasl.jaas.config", module + " required username=\"" + user + "\" password=\"" + password + "\""
                + (l[10].equals("true") ? " tokenauth=\"true\"" : "") + ";");
        }
        try (Producer<String, String> p = new KafkaProducer<>(conf, new StringSerializer(), new StringSerializer())) {
            for (int i = 0; i < writes; i++) {
                p.send(new ProducerRecord<>(topic, "v" + i)).get();
                if (writes > 10) Thread.sleep(100);
            }
        }
        conf.put("group.id", group);
        conf.put("auto.offset.reset", "earliest");
        conf.put("enable.auto.commit", false);
        try (Consumer<String, String> c = new KafkaConsumer<>(conf, new StringDeserializer(), new StringDeserializer())) {
            c.subscribe(List.of(topic));
            for (int got = 0; got < writes; ) {
                for (ConsumerRecord<String, String> r : c.poll(Duration.ofSeconds(1))) {
                    got++;
                    c.commitSync(Map.of(new TopicPartition(topic, 0), new OffsetAndMetadata(r.offset() + 1)));
                }
            }
            OffsetAndMetadata at = c.committed(Set.of(new TopicPartition(topic, 0))).get(new TopicPartition(topic, 0));
            return at.offset() == writes ? "served" : "committed " + at.offset();
        }
    }

    /** Gives the token of the configuration. */
    public static class Given implements AuthenticateCallbackHandler {
        String token, user;

        public void configure(Map<String, ?> configs, String mechanism, List<AppConfigurationEntry> entries) {
            token = (String) entries.get(0).getOptions().get("token");
            user = (String) entries.get(0).getOptions().get("user");
        }

        public void handle(Callback[] callbacks) {
            for (Callback c : callbacks) {
                if (c instanceof OAuthBearerTokenCallback of) of.token(new OAuthBearerToken() {
                    public String value() { return token; }
                    public Set<String> scope() { return Set.of(); }
                    public long lifetimeMs() { return System.currentTimeMillis() + 3_600_000; }
                    public String principalName() { return user; }
                    public Long startTimeMs() { return null; }
                });
            }
        }

        public void close() {}
    }
}
