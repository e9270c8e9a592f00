package strata;

import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.Message;

import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.util.Collection;
import java.util.List;
import java.util.Set;
import java.util.regex.Pattern;

/**
 * Translates the ids of brokers in what clients and brokers send: those of a strata serve begin with 1, those of
 * Kafka's tests with 0.
 */
final class Ids {
    private Ids() { }

    /** The fields of Kafka's messages that are ids of brokers, or lists of them. */
    private static final Set<String> FIELDS = Set.of("brokerId", "nodeId", "leaderId", "controllerId", "replicaId", "preferredReadReplica",
        "brokerIds", "replicas", "addingReplicas", "removingReplicas", "replicaNodes", "isrNodes", "offlineReplicas",
        "eligibleLeaderReplicas", "lastKnownElr");

    private static final Set<Byte> OF_BROKERS = Set.of((byte) 4, (byte) 8); // types of resources: broker, broker logger

    private static final Pattern IN_TEXT = Pattern.compile("\\b(broker )([0-9]{1,9})\\b");

    /** Requests that a door looks into. */
    static final Set<ApiKeys> REQUESTS = Set.of(ApiKeys.CREATE_TOPICS, ApiKeys.CREATE_PARTITIONS, ApiKeys.ALTER_PARTITION_REASSIGNMENTS,
        ApiKeys.DESCRIBE_CONFIGS, ApiKeys.ALTER_CONFIGS, ApiKeys.INCREMENTAL_ALTER_CONFIGS, ApiKeys.UNREGISTER_BROKER,
        ApiKeys.LIST_OFFSETS, ApiKeys.OFFSET_FOR_LEADER_EPOCH, ApiKeys.FETCH,
        ApiKeys.UPDATE_FEATURES); // which has none, but what is at no level

    /** Answers that a door looks into. */
    static final Set<ApiKeys> ANSWERS = Set.of(ApiKeys.METADATA, ApiKeys.DESCRIBE_CLUSTER, ApiKeys.FIND_COORDINATOR, ApiKeys.PRODUCE,
        ApiKeys.FETCH, ApiKeys.SHARE_FETCH, ApiKeys.SHARE_ACKNOWLEDGE, ApiKeys.DESCRIBE_CONFIGS, ApiKeys.ALTER_CONFIGS,
        ApiKeys.INCREMENTAL_ALTER_CONFIGS, ApiKeys.LIST_PARTITION_REASSIGNMENTS, ApiKeys.DESCRIBE_TOPIC_PARTITIONS,
        ApiKeys.DESCRIBE_QUORUM, ApiKeys.LIST_CONFIG_RESOURCES, ApiKeys.CREATE_TOPICS, ApiKeys.CREATE_PARTITIONS,
        ApiKeys.ALTER_PARTITION_REASSIGNMENTS); // the last ones have them in what is wrong

    /** Adds a number to all ids in a message, and tells whether there are any. */
    static boolean add(Message m, int number) {
        try {
            return addTo(m, number);
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
    }

    private static boolean addTo(Message m, int number) throws ReflectiveOperationException {
        boolean any = addToResource(m, number);
        for (Field f : m.getClass().getDeclaredFields()) {
            if (Modifier.isStatic(f.getModifiers())) {
                continue;
            }
            f.setAccessible(true);
            Object value = f.get(m);
            boolean ids = FIELDS.contains(f.getName()) && !(f.getName().equals("nodeId") && nowhere(m));
            if (f.getName().equals("errorMessage") && value instanceof String text && IN_TEXT.matcher(text).find()) {
                f.set(m, IN_TEXT.matcher(text).replaceAll(id -> id.group(1) + (Integer.parseInt(id.group(2)) + number)));
                any = true;
            } else if (value instanceof Message of) {
                any |= addTo(of, number);
            } else if (ids && value instanceof Integer id && id >= 0) {
                f.setInt(m, id + number);
                any = true;
            } else if (value instanceof List<?> list && ids && !list.isEmpty() && list.get(0) instanceof Integer) {
                f.set(m, list.stream().map(Integer.class::cast).map(id -> id < 0 ? id : id + number).toList());
                any = true;
            } else if (value instanceof Collection<?> c) {
                for (Object of : c) {
                    if (of instanceof Message each) {
                        any |= addTo(each, number);
                    }
                }
            }
        }
        return any;
    }

    /** Whether a node in a message is none, as that of a coordinator in versions that have several. */
    private static boolean nowhere(Message m) throws ReflectiveOperationException {
        for (Field f : m.getClass().getDeclaredFields()) {
            if (f.getName().equals("host")) {
                f.setAccessible(true);
                return f.get(m).equals("");
            }
        }
        return false;
    }

    /** Adds a number to the id in the name of a resource, if it is a broker's. */
    private static boolean addToResource(Message m, int number) throws ReflectiveOperationException {
        Field type;
        Field name;
        try {
            type = m.getClass().getDeclaredField("resourceType");
            name = m.getClass().getDeclaredField("resourceName");
        } catch (NoSuchFieldException e) {
            return false;
        }
        type.setAccessible(true);
        name.setAccessible(true);
        if (!OF_BROKERS.contains(type.getByte(m)) || !((String) name.get(m)).matches("[0-9]{1,9}")) {
            return false;
        }
        name.set(m, String.valueOf(Integer.parseInt((String) name.get(m)) + number));
        return true;
    }
}
