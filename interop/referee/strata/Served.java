package strata;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ScramCredentialInfo;
import org.apache.kafka.clients.admin.ScramMechanism;
import org.apache.kafka.clients.admin.UserScramCredentialUpsertion;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.requests.AbstractRequest;
import org.apache.kafka.common.requests.AbstractResponse;
import org.apache.kafka.common.security.auth.SecurityProtocol;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import java.util.stream.Collectors;

/** A strata serve, as Kafka's tests want it: with what they have in server.properties. What it cannot be aborts the test. */
public final class Served {
    /** Who asks what the stand-ins of brokers have to know, where clients authenticate. */
    private static final String REFEREE = "referee";

    private final int count;
    private final Map<String, String> properties;
    private final SecurityProtocol protocol;
    private final Map<String, String> users = new TreeMap<>(); // and their passwords
    private final Map<Integer, Map<String, String>> own = new TreeMap<>();
    private final Map<String, Short> features = new TreeMap<>();
    private final Map<String, List<Door>> doors = new HashMap<>(); // by listener, one for each broker; "": others
    private final Map<String, Supplier<String>> principals = new TreeMap<>(); // by listener
    private final List<String> addresses = new ArrayList<>(); // of brokers 1, 2, ...
    private final Set<String> superUsers = new TreeSet<>();
    private final Set<Integer> down = new TreeSet<>(); // brokers that are stopped
    private Tls tls;
    private Process process;
    private Path home;
    private Admin admin;
    private boolean stopped;

    /** A strata serve of some brokers, with properties that all of them have. */
    public Served(int brokers, Map<String, String> properties, SecurityProtocol protocol) {
        this.count = brokers;
        this.properties = Map.copyOf(properties);
        this.protocol = protocol;
    }

    /** Adds what a broker has for itself, by its id in Kafka's framework: 0, 1, ... */
    public void own(int id, Map<String, String> properties) {
        own.put(id, properties);
    }

    public void feature(String name, short level) {
        features.put(name, level);
    }

    public void user(String name, String password) {
        users.put(name, password);
    }

    /** Who comes in by this listener, which has no security of its own, is a user. It is asked at each connection. */
    public void principal(String listener, Supplier<String> user) {
        principals.put(listener, user);
        users.putIfAbsent(user.get(), "of-" + user.get());
    }

    /** Adds a user who may do everything. */
    public void superUser(String name) {
        superUsers.add(name);
    }

    /** How the brokers' listeners are secured, by Kafka's names of its settings. */
    public void tls(Map<String, ?> settings) {
        tls = new Tls(settings);
    }

    public synchronized void start() {
        if (process != null) {
            return;
        }
        try {
            home = Files.createTempDirectory("referee");
            String ready = serve();
            addresses.addAll(List.of(ready.split(",")));
            for (Map.Entry<String, Supplier<String>> p : principals.entrySet()) {
                doors.put(p.getKey(), open(p.getValue()));
            }
            if (!encrypted()) {
                doors.put("", open(null));
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    /** Opens a door to each broker, by which everybody is a user, or who they are if it is null. */
    private List<Door> open(Supplier<String> user) throws IOException {
        List<Door> all = new ArrayList<>();
        for (String address : addresses) {
            all.add(new Door(port(address), user, this::password, all));
        }
        return all;
    }

    /** The password of a user, who is there then. */
    private synchronized String password(String user) {
        return users.computeIfAbsent(user, name -> {
            String password = "of-" + name;
            ScramCredentialInfo how = new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096);
            try {
                asking().alterUserScramCredentials(List.of(new UserScramCredentialUpsertion(name, how, password))).all().get();
            } catch (ExecutionException | InterruptedException e) {
                throw new IllegalStateException(e);
            }
            return password;
        });
    }

    /** Starts the process and returns its addresses. */
    private String serve() throws IOException, InterruptedException {
        for (int again = 0; ; again++) {
            process = new ProcessBuilder(command()).redirectError(file("out").toFile()).start();
            String ready = process.inputReader().readLine();
            if (ready != null && ready.startsWith("ready ")) {
                return ready.substring("ready ".length()).split(" ")[0]; // those that clients are told
            }
            process.waitFor();
            String said = Files.readString(file("out"));
            if (again == 5 || !said.contains("address already in use")) {
                throw Inside.needs("strata serve to start: " + said.lines().findFirst().orElse(""));
            }
        }
    }

    private Path file(String name) {
        return home.resolve(name);
    }

    private List<String> command() throws IOException {
        List<String> c = new ArrayList<>(List.of(System.getProperty("referee.strata"), "serve", "--memory"));
        c.addAll(List.of("--brokers", String.valueOf(count)));
        Map<String, String> p = new HashMap<>(properties);
        if (authenticates()) {
            users.put(REFEREE, "of-" + REFEREE);
            superUsers.add(REFEREE);
            Files.writeString(file("users"), users.entrySet().stream().map(u -> u.getKey() + "=" + u.getValue() + "\n").collect(Collectors.joining()));
            c.addAll(List.of("--users", file("users").toString()));
        }
        if (tls != null) {
            tls.options(c, home);
        } else if (encrypted()) {
            throw Inside.needs(protocol.name);
        }
        // tests want brokers at localhost, which is what certificates are for, so that ports are chosen before
        String at = String.join(",", freeAddresses(count));
        c.addAll(List.of("--listen", at, "--advertise", at));
        superUsers.forEach(name -> p.merge("super.users", "User:" + name, (a, b) -> a + ";" + b));
        if (!authorizes()) {
            p.remove("super.users");
        }
        String secret = p.remove("delegation.token.secret.key");
        if (secret != null && authenticates()) { // who does not has no tokens
            Files.writeString(file("secret"), secret);
            c.addAll(List.of("--token-secret", file("secret").toString()));
        }
        Settings.add(c, p);
        Settings.addOwn(c, own);
        features.forEach((name, level) -> Settings.feature(c, name, level));
        return c;
    }

    private static List<String> freeAddresses(int n) throws IOException {
        List<ServerSocket> free = new ArrayList<>(); // all at once, so that they differ
        List<String> addresses = new ArrayList<>();
        while (free.size() < n) {
            free.add(new ServerSocket(0));
            addresses.add("localhost:" + free.get(free.size() - 1).getLocalPort());
        }
        for (ServerSocket f : free) {
            f.close();
        }
        return addresses;
    }

    private boolean authenticates() {
        return protocol == SecurityProtocol.SASL_PLAINTEXT || protocol == SecurityProtocol.SASL_SSL || !principals.isEmpty();
    }

    boolean authorizes() {
        return properties.containsKey("authorizer.class.name");
    }

    Map<String, String> properties() {
        return properties;
    }

    SecurityProtocol protocol() {
        return protocol;
    }

    private static int port(String address) {
        return Integer.parseInt(address.substring(address.lastIndexOf(':') + 1));
    }

    boolean encrypted() {
        return protocol == SecurityProtocol.SSL || protocol == SecurityProtocol.SASL_SSL;
    }

    /** The id of the first broker: those of a strata serve begin with 1, which its doors translate. */
    public int first() {
        return encrypted() ? 1 : 0;
    }

    /** The ports of the brokers, in the order of their ids. */
    public List<Integer> ports() {
        return encrypted() ? addresses.stream().map(Served::port).toList() : doors.get("").stream().map(Door::port).toList();
    }

    /** The port of a broker for those who come in by a listener. */
    int port(int id, ListenerName listener) {
        List<Door> of = doors.get(listener.value());
        if (of != null) {
            return of.get(id).port();
        }
        if (!principals.isEmpty()) {
            throw Inside.needs("a listener " + listener.value());
        }
        return ports().get(id - first());
    }

    /** The port of the first broker, for those who come in as the test's clients do. */
    int somePort() {
        return port(first(), new ListenerName(principals.isEmpty() ? "" : principals.keySet().iterator().next()));
    }

    public String bootstrapServers() {
        return ports().stream().map(p -> "localhost:" + p).collect(Collectors.joining(","));
    }

    /** An Admin for what the stand-ins of brokers are asked, until stop. */
    public synchronized Admin asking() {
        if (admin == null) {
            Map<String, Object> c = new HashMap<>(Map.of("bootstrap.servers", bootstrapServers()));
            c.put("security.protocol", protocol.name);
            if (tls != null) {
                c.putAll(tls.client());
            }
            if (authenticates()) {
                c.putAll(Map.of("security.protocol", tls == null ? "SASL_PLAINTEXT" : "SASL_SSL", "sasl.mechanism", "PLAIN", "sasl.jaas.config",
                    String.format("org.apache.kafka.common.security.plain.PlainLoginModule required username=\"%s\" password=\"%s\";",
                        REFEREE, users.get(REFEREE))));
            }
            admin = Admin.create(c);
        }
        return admin;
    }

    /** What a running broker answers to whoever has no name. */
    AbstractResponse ask(AbstractRequest request) {
        if (encrypted() || authenticates()) {
            throw Inside.needs("requests of the referee's own, of no user");
        }
        try {
            for (int id = 0; ; id++) {
                if (runs(id)) {
                    return doors.get("").get(id).ask(request);
                }
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    public String clusterId() {
        try {
            return asking().describeCluster().clusterId().get();
        } catch (ExecutionException | InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    public synchronized void stop() {
        if (process == null || stopped) {
            return;
        }
        stopped = true;
        if (admin != null) {
            admin.close();
        }
        doors.values().forEach(of -> of.forEach(Door::close));
        process.destroy();
        try {
            if (!process.waitFor(20, TimeUnit.SECONDS)) {
                process.destroyForcibly().waitFor();
                throw new AssertionError("strata serve does not stop");
            }
            String said = Files.readString(file("out"));
            for (String name : List.of("out", "users", "secret", "cert", "key", "authorities")) {
                Files.deleteIfExists(file(name));
            }
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

    /** Stops a broker, with the last one the process, or starts one that is stopped. */
    public synchronized void run(int id, boolean runs) {
        if (stopped && runs) {
            throw Inside.needs("brokers that have all stopped, and start again");
        }
        if (stopped || runs != down.contains(id)) {
            return;
        }
        if (!runs && down.size() + 1 == count) {
            stop();
            return;
        }
        if (encrypted()) {
            throw Inside.needs("connections that are cut"); // there are no doors
        }
        try {
            process.outputWriter().write((runs ? "start " : "stop ") + (id + 1 - first()) + "\n");
            process.outputWriter().flush();
            String came = process.inputReader().readLine();
            if (!"done".equals(came)) {
                throw Inside.needs("a broker that is shut down: " + came);
            }
            for (List<Door> of : doors.values()) {
                if (runs) {
                    of.get(id).open();
                } else {
                    of.get(id).close();
                }
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        if (runs) {
            down.remove(id);
        } else {
            down.add(id);
        }
    }

    /** Whether a broker runs. */
    public synchronized boolean runs(int id) {
        return !stopped && !down.contains(id);
    }

    public synchronized boolean started() {
        return process != null;
    }

    public synchronized boolean stopped() {
        return stopped;
    }
}
