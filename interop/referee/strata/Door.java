package strata;

import org.apache.kafka.common.message.SaslAuthenticateRequestData;
import org.apache.kafka.common.message.SaslHandshakeRequestData;
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

/**
 * A listener by which every client is the same user, as Kafka's tests have them by a principal.builder.class: it
 * authenticates for the client, and passes on what goes either way. Where brokers are is told as if they listened
 * at their doors.
 */
final class Door {
    private final int to;
    private final String user;
    private final String password;
    private final List<Door> all; // those of the other brokers too, in the order of their ids
    private final ServerSocket listener;
    private final List<Socket> open = new CopyOnWriteArrayList<>();

    Door(int to, String user, String password, List<Door> all) throws IOException {
        this.to = to;
        this.user = user;
        this.password = password;
        this.all = all;
        listener = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
        run(this::accept);
    }

    int port() {
        return listener.getLocalPort();
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
            }
            for (Socket s : until) {
                try {
                    s.close();
                } catch (IOException e) {
                    // it is closed
                }
            }
        }, "door");
        t.setDaemon(true);
        t.start();
    }

    private void accept() throws IOException {
        while (true) {
            Socket client = listener.accept();
            open.add(client);
            run(() -> serve(client), client);
        }
    }

    private void serve(Socket client) throws IOException {
        try (Socket broker = new Socket(InetAddress.getLoopbackAddress(), to)) {
            client.setTcpNoDelay(true);
            broker.setTcpNoDelay(true);
            open.add(broker);
            authenticate(broker);
            Map<Integer, RequestHeader> asked = new ConcurrentHashMap<>(); // by correlation id
            run(() -> answers(broker, client, asked), broker, client);
            DataInputStream in = new DataInputStream(client.getInputStream());
            while (true) {
                ByteBuffer frame = read(in);
                try {
                    RequestHeader header = RequestHeader.parse(frame.duplicate());
                    asked.put(header.correlationId(), header);
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

    /** An answer with the addresses of the doors for those of the brokers. */
    private ByteBuffer atDoors(ByteBuffer frame, RequestHeader request) {
        boolean several = all.size() > 1; // with one nobody is sent to another
        boolean has = switch (request.apiKey()) {
            case METADATA, DESCRIBE_CLUSTER, FIND_COORDINATOR -> true;
            case PRODUCE, FETCH, SHARE_FETCH, SHARE_ACKNOWLEDGE -> several;
            default -> false;
        };
        if (!has) {
            return frame;
        }
        short version = request.apiVersion();
        ByteBuffer rest = frame.duplicate();
        ResponseHeader header = ResponseHeader.parse(rest, request.apiKey().responseHeaderVersion(version));
        AbstractResponse answer = AbstractResponse.parseResponse(request.apiKey(), new ByteBufferAccessor(rest), version);
        if (answer instanceof MetadataResponse r) {
            r.data().brokers().forEach(b -> b.setHost("localhost").setPort(of(b.nodeId())));
        } else if (answer instanceof DescribeClusterResponse r) {
            r.data().brokers().forEach(b -> b.setHost("localhost").setPort(of(b.brokerId())));
        } else if (answer instanceof FindCoordinatorResponse r) {
            r.data().coordinators().stream().filter(c -> c.nodeId() > 0).forEach(c -> c.setHost("localhost").setPort(of(c.nodeId())));
            if (r.data().nodeId() > 0) {
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
        return all.get(id - 1).port();
    }

    private void authenticate(Socket broker) throws IOException {
        DataInputStream in = new DataInputStream(broker.getInputStream());
        ask(broker, in, new SaslHandshakeRequest.Builder(new SaslHandshakeRequestData().setMechanism("PLAIN")).build((short) 1));
        byte[] plain = ("\0" + user + "\0" + password).getBytes(StandardCharsets.UTF_8);
        ask(broker, in, new SaslAuthenticateRequest.Builder(new SaslAuthenticateRequestData().setAuthBytes(plain)).build((short) 2));
    }

    private static void ask(Socket broker, DataInputStream in, AbstractRequest request) throws IOException {
        RequestHeader header = new RequestHeader(request.apiKey(), request.version(), "door", 0);
        write(broker, request.serializeWithHeader(header));
        AbstractResponse answer = AbstractResponse.parseResponse(read(in), header);
        if (!answer.errorCounts().keySet().equals(Set.of(Errors.NONE))) {
            throw new AssertionError(answer);
        }
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
