package strata;

import org.apache.kafka.common.message.SaslAuthenticateRequestData;
import org.apache.kafka.common.message.SaslHandshakeRequestData;
import org.apache.kafka.common.message.UpdateFeaturesRequestData;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.AbstractRequest;
import org.apache.kafka.common.requests.AbstractResponse;
import org.apache.kafka.common.requests.DescribeClusterResponse;
import org.apache.kafka.common.requests.FetchResponse;
import org.apache.kafka.common.requests.FindCoordinatorResponse;
import org.apache.kafka.common.requests.MetadataResponse;
import org.apache.kafka.common.requests.ProduceResponse;
import org.apache.kafka.common.requests.RequestHeader;
import org.apache.kafka.common.requests.RequestUtils;
import org.apache.kafka.common.requests.ResponseHeader;
import org.apache.kafka.common.requests.SaslAuthenticateRequest;
import org.apache.kafka.common.requests.SaslHandshakeRequest;
import org.apache.kafka.common.requests.ShareAcknowledgeResponse;
import org.apache.kafka.common.requests.ShareFetchResponse;
import org.apache.kafka.common.requests.UpdateFeaturesRequest;
import org.apache.kafka.common.utils.Utils;

import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.Supplier;
import java.util.function.UnaryOperator;

/**
 * A listener that passes on to a broker what goes either way. Brokers have there the ids that Kafka's tests expect,
 * and where they are is told as if they listened at their doors. By some of them every client is the same user, as
 * Kafka's tests have it by a principal.builder.class: they authenticate for the client.
 */
final class Door {
    private final int to;
    private final Supplier<String> user; // null: clients come as who they are
    private final UnaryOperator<String> passwords; // by user
    private final List<Door> all; // those of the other brokers too, in the order of their ids
    private ServerSocket listener;
    private final List<Socket> open = new CopyOnWriteArrayList<>();

    Door(int to, Supplier<String> user, UnaryOperator<String> passwords, List<Door> all) throws IOException {
        this.to = to;
        this.user = user;
        this.passwords = passwords;
        this.all = all;
        listener = listen(0);
    }

    private ServerSocket listen(int port) throws IOException {
        ServerSocket s = new ServerSocket(port, 50, InetAddress.getLoopbackAddress());
        run(() -> accept(s));
        return s;
    }

    int port() {
        return listener.getLocalPort();
    }

    /** Opens the door again, at the port that it had. */
    void open() throws IOException {
        listener = listen(port());
    }

    void close() {
        try {
            listener.close();
            for (Socket s : open) {
                s.close();
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** Something that ends with an IOException when a connection does. */
    private interface Work {
        void run() throws IOException;
    }

    private static void run(Work work, Socket... until) {
        Thread t = new Thread(() -> {
            try {
                work.run();
            } catch (IOException e) {
                // the connection has ended
            } finally {
                for (Socket s : until) {
                    Utils.closeQuietly(s, "a connection");
                }
            }
        }, "executor-door"); // Kafka's tests take those of other names for leaks: this one may end a moment later
        t.setDaemon(true);
        t.start();
    }

    private void accept(ServerSocket at) throws IOException {
        while (true) {
            Socket client = at.accept();
            open.add(client);
            run(() -> serve(client), client);
        }
    }

    private void serve(Socket client) throws IOException {
        try (Socket broker = new Socket(InetAddress.getLoopbackAddress(), to)) {
            client.setTcpNoDelay(true);
            broker.setTcpNoDelay(true);
            open.add(broker);
            if (user != null) {
                authenticate(broker);
            }
            Map<Integer, RequestHeader> asked = new ConcurrentHashMap<>(); // by correlation id
            run(() -> answers(broker, client, asked), broker, client);
            DataInputStream in = new DataInputStream(client.getInputStream());
            while (true) {
                ByteBuffer frame = read(in);
                try {
                    RequestHeader header = RequestHeader.parse(frame.duplicate());
                    asked.put(header.correlationId(), header);
                    frame = toBroker(frame, header);
                } catch (RuntimeException e) {
                    // what the broker is to make of it is what the test is about
                }
                write(broker, frame);
            }
        }
    }

    private void answers(Socket broker, Socket client, Map<Integer, RequestHeader> asked) throws IOException {
        DataInputStream in = new DataInputStream(broker.getInputStream());
        while (true) {
            ByteBuffer frame = read(in);
            RequestHeader header = asked.remove(frame.getInt(frame.position()));
            write(client, header == null ? frame : atDoors(frame, header));
        }
    }

    /** The answer to a request that a client sends by this door. */
    AbstractResponse ask(AbstractRequest request) throws IOException {
        try (Socket s = new Socket(InetAddress.getLoopbackAddress(), port())) {
            return ask(s, new DataInputStream(s.getInputStream()), request);
        }
    }

    /** A request with the ids that brokers have. */
    private static ByteBuffer toBroker(ByteBuffer frame, RequestHeader header) {
        if (!Ids.REQUESTS.contains(header.apiKey())) {
            return frame;
        }
        ByteBuffer rest = frame.duplicate();
        RequestHeader.parse(rest);
        AbstractRequest request = AbstractRequest.parseRequest(header.apiKey(), header.apiVersion(), new ByteBufferAccessor(rest)).request;
        if (request instanceof UpdateFeaturesRequest r) {
            return r.data().featureUpdates().removeIf(Door::hasIt) ? request.serializeWithHeader(header) : frame;
        }
        return Ids.add(request.data(), 1) ? request.serializeWithHeader(header) : frame;
    }

    /** Whether a feature that is not there is to have level 0, which tests begin with. */
    private static boolean hasIt(UpdateFeaturesRequestData.FeatureUpdateKey update) {
        return update.feature().equals("eligible.leader.replicas.version") && update.maxVersionLevel() == 0;
    }

    /** An answer with the ids that tests expect, and the addresses of the doors for those of the brokers. */
    private ByteBuffer atDoors(ByteBuffer frame, RequestHeader request) {
        if (!Ids.ANSWERS.contains(request.apiKey())) {
            return frame;
        }
        short version = request.apiVersion();
        ByteBuffer rest = frame.duplicate();
        ResponseHeader header = ResponseHeader.parse(rest, request.apiKey().responseHeaderVersion(version));
        AbstractResponse answer = AbstractResponse.parseResponse(request.apiKey(), new ByteBufferAccessor(rest), version);
        if (!Ids.add(answer.data(), -1)) {
            return frame;
        }
        if (answer instanceof MetadataResponse r) {
            r.data().brokers().forEach(b -> b.setHost("localhost").setPort(of(b.nodeId())));
        } else if (answer instanceof DescribeClusterResponse r) {
            r.data().brokers().forEach(b -> b.setHost("localhost").setPort(of(b.brokerId())));
        } else if (answer instanceof FindCoordinatorResponse r) {
            r.data().coordinators().stream().filter(c -> !c.host().isEmpty()).forEach(c -> c.setHost("localhost").setPort(of(c.nodeId())));
            if (!r.data().host().isEmpty()) {
                r.data().setHost("localhost").setPort(of(r.data().nodeId()));
            }
        } else if (answer instanceof ProduceResponse r) {
            r.data().nodeEndpoints().forEach(b -> b.setHost("localhost").setPort(of(b.nodeId())));
        } else if (answer instanceof FetchResponse r) {
            r.data().nodeEndpoints().forEach(b -> b.setHost("localhost").setPort(of(b.nodeId())));
        } else if (answer instanceof ShareFetchResponse r) {
            r.data().nodeEndpoints().forEach(b -> b.setHost("localhost").setPort(of(b.nodeId())));
        } else if (answer instanceof ShareAcknowledgeResponse r) {
            r.data().nodeEndpoints().forEach(b -> b.setHost("localhost").setPort(of(b.nodeId())));
        }
        return RequestUtils.serialize(header.data(), header.headerVersion(), answer.data(), version);
    }

    private int of(int id) {
        return all.get(id).port();
    }

    private void authenticate(Socket broker) throws IOException {
        DataInputStream in = new DataInputStream(broker.getInputStream());
        ask(broker, in, new SaslHandshakeRequest.Builder(new SaslHandshakeRequestData().setMechanism("PLAIN")).build((short) 1));
        String name = user.get();
        byte[] plain = ("\0" + name + "\0" + passwords.apply(name)).getBytes(StandardCharsets.UTF_8);
        ask(broker, in, new SaslAuthenticateRequest.Builder(new SaslAuthenticateRequestData().setAuthBytes(plain)).build((short) 2));
    }

    private static AbstractResponse ask(Socket broker, DataInputStream in, AbstractRequest request) throws IOException {
        RequestHeader header = new RequestHeader(request.apiKey(), request.version(), "door", 0);
        write(broker, request.serializeWithHeader(header));
        AbstractResponse answer = AbstractResponse.parseResponse(read(in), header);
        if (!answer.errorCounts().keySet().equals(Set.of(Errors.NONE))) {
            throw new AssertionError(answer);
        }
        return answer;
    }

    private static ByteBuffer read(DataInputStream in) throws IOException {
        byte[] frame = new byte[in.readInt()];
        in.readFully(frame);
        return ByteBuffer.wrap(frame);
    }

    private static void write(Socket to, ByteBuffer frame) throws IOException {
        ByteBuffer b = ByteBuffer.allocate(4 + frame.remaining()).putInt(frame.remaining()).put(frame);
        new DataOutputStream(to.getOutputStream()).write(b.array());
    }
}
