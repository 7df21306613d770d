import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.reflect.Field;
import java.lang.reflect.ParameterizedType;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.types.BoundField;
import org.apache.kafka.common.protocol.types.RawTaggedField;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.TaggedFields;
import org.apache.kafka.common.protocol.types.Type;

/**
 * Random messages of Kafka's own classes: their bytes, and their JSON as Kafka's converters write it.
 *
 * Arguments are a seed, how many of each version, and names of messages. Each line is an object of
 * name, version, bytes (base64), json, and whether unknown tagged fields were put in.
 */
public class SystemMessages {
    private static final List<String> PACKAGES = List.of(
        "org.apache.kafka.coordinator.group.generated.",
        "org.apache.kafka.coordinator.transaction.generated.",
        "org.apache.kafka.coordinator.share.generated.",
        "org.apache.kafka.common.metadata.",
        "org.apache.kafka.server.log.remote.metadata.storage.generated.",
        "org.apache.kafka.common.message.");
    private static final String[] TEXTS = {"", "orders", "a b", "é\u4e2d\ud83d\ude00", "x".repeat(300)};
    private static final int UNKNOWN_TAG = 9_000;

    private final Random random;
    private boolean isExtended;

    private SystemMessages(long seed) {
        random = new Random(seed);
    }

    public static void main(String[] arguments) throws Exception {
        SystemMessages messages = new SystemMessages(Long.parseLong(arguments[0]));
        int count = Integer.parseInt(arguments[1]);
        for (int i = 2; i < arguments.length; i++) {
            Class<?> type = find(arguments[i]);
            Schema[] schemas = (Schema[]) type.getField("SCHEMAS").get(null);
            for (short version = 0; version < schemas.length; version++) {
                for (int n = 0; n < count && schemas[version] != null; n++) {
                    messages.print(arguments[i], type, schemas[version], version);
                }
            }
        }
    }

    private static Class<?> find(String name) throws ClassNotFoundException {
        for (String prefix : PACKAGES) {
            try {
                return Class.forName(prefix + name);
            } catch (ClassNotFoundException e) {
                continue;
            }
        }
        throw new ClassNotFoundException(name);
    }

    private void print(String name, Class<?> type, Schema schema, short version) throws Exception {
        isExtended = random.nextInt(4) == 0;
        Message message = (Message) fill(type, schema);
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(buffer), cache, version);
        Class<?> converter = Class.forName(type.getName() + "JsonConverter");
        JsonNode json = (JsonNode) converter.getMethod("write", type, short.class)
            .invoke(null, message, version);
        ObjectNode line = new ObjectNode(JsonNodeFactory.instance);
        line.put("name", name);
        line.put("version", (int) version);
        line.put("bytes", Base64.getEncoder().encodeToString(buffer.array()));
        line.put("isExtended", isExtended);
        line.set("json", json);
        System.out.println(line);
    }

    private Object fill(Class<?> type, Schema schema) throws Exception {
        var constructor = type.getDeclaredConstructor();
        constructor.setAccessible(true);
        Object message = constructor.newInstance();
        Map<String, Field> fields = new HashMap<>();
        for (Field field : type.getDeclaredFields()) {
            field.setAccessible(true);
            fields.put(field.getName().toLowerCase(), field);
        }
        for (BoundField bound : schema.fields()) {
            if (bound.def.type instanceof TaggedFields tagged) {
                for (var each : tagged.fields().values()) {
                    if (random.nextBoolean()) {
                        set(message, fields, each.name, each.type);
                    }
                }
                if (isExtended) {
                    byte[] data = new byte[random.nextInt(5)];
                    random.nextBytes(data);
                    ((Message) message).unknownTaggedFields().add(new RawTaggedField(UNKNOWN_TAG, data));
                }
            } else {
                set(message, fields, bound.def.name, bound.def.type);
            }
        }
        return message;
    }

    private void set(Object message, Map<String, Field> fields, String name, Type type) throws Exception {
        Field field = fields.get(name.replace("_", ""));
        field.set(message, value(field.getType(), field.getGenericType(), type));
    }

    @SuppressWarnings("unchecked")
    private Object value(Class<?> kind, java.lang.reflect.Type generic, Type type) throws Exception {
        if (type.isNullable() && random.nextInt(3) == 0) {
            return null;
        }
        if (kind == boolean.class) {
            return random.nextBoolean();
        } else if (kind == byte.class || kind == Byte.class) {
            return (byte) random.nextInt();
        } else if (kind == short.class || kind == Short.class) {
            return (short) random.nextInt();
        } else if (kind == int.class || kind == Integer.class) {
            return type == Type.UINT16 ? random.nextInt(1 << 16) : random.nextInt();
        } else if (kind == long.class) {
            return random.nextLong();
        } else if (kind == double.class) {
            return random.nextDouble() * 1e6;
        } else if (kind == String.class) {
            return TEXTS[random.nextInt(TEXTS.length)];
        } else if (kind == Uuid.class) {
            return new Uuid(random.nextLong(), random.nextLong());
        } else if (kind == byte[].class) {
            return bytes();
        } else if (kind == ByteBuffer.class) {
            return ByteBuffer.wrap(bytes());
        } else if (Collection.class.isAssignableFrom(kind)) {
            boolean isList = kind == List.class;
            var owner = (ParameterizedType) (isList ? generic : kind.getGenericSuperclass());
            Class<?> element = (Class<?>) owner.getActualTypeArguments()[0];
            Collection<Object> made = isList
                ? new ArrayList<>()
                : (Collection<Object>) kind.getDeclaredConstructor().newInstance();
            for (int n = random.nextInt(4); n > 0; n--) {
                made.add(value(element, element, type.arrayElementType().get()));
            }
            return made;
        }
        return fill(kind, (Schema) type);
    }

    private byte[] bytes() {
        byte[] data = new byte[random.nextInt(20)];
        random.nextBytes(data);
        return data;
    }
}
