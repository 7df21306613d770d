import java.util.Properties;
import java.util.Random;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Four transactional producers that take turns on one topic, as only the Java client writes it: an
 * epoch that rises with each transaction, and markers that carry it. Every third transaction is
 * aborted; the last of the first producer stays open, since the process ends without closing it.
 * Arguments: bootstrap servers, topic, partitions, transactions, seed.
 */
public class TransactionalWriter {
    private static final String[] CODECS = {"none", "snappy", "lz4", "zstd"};

    public static void main(String[] arguments) throws Exception {
        String topic = arguments[1];
        int partitions = Integer.parseInt(arguments[2]);
        int transactions = Integer.parseInt(arguments[3]);
        Random draw = new Random(Long.parseLong(arguments[4]));
        KafkaProducer<byte[], byte[]>[] producers = producers(arguments[0]);
        for (int number = 0; number < transactions; number++) {
            KafkaProducer<byte[], byte[]> first = producers[number % CODECS.length];
            KafkaProducer<byte[], byte[]> second = producers[(number + 1) % CODECS.length];
            first.beginTransaction();
            second.beginTransaction();
            send(first, topic, partitions, "a" + number, draw);
            send(second, topic, partitions, "b" + number, draw);
            send(first, topic, partitions, "c" + number, draw);
            end(second, number % 3 == 0);
            end(first, number % 3 == 1);
        }
        producers[0].beginTransaction();
        send(producers[0], topic, partitions, "open", draw);
        Runtime.getRuntime().halt(0);
    }

    @SuppressWarnings("unchecked")
    private static KafkaProducer<byte[], byte[]>[] producers(String servers) {
        KafkaProducer<byte[], byte[]>[] producers = new KafkaProducer[CODECS.length];
        for (int index = 0; index < producers.length; index++) {
            Properties settings = new Properties();
            settings.put("bootstrap.servers", servers);
            settings.put("key.serializer", ByteArraySerializer.class.getName());
            settings.put("value.serializer", ByteArraySerializer.class.getName());
            settings.put("compression.type", CODECS[index]);
            settings.put("transactional.id", "interop-" + index);
            settings.put("transaction.timeout.ms", "7200000");
            producers[index] = new KafkaProducer<>(settings);
            producers[index].initTransactions();
        }
        return producers;
    }

    private static void send(
            KafkaProducer<byte[], byte[]> producer, String topic, int partitions, String text, Random draw)
            throws Exception {
        Future<?> last = null;
        int records = 1 + draw.nextInt(4);
        for (int number = 0; number < records; number++) {
            byte[] key = (text + "-" + number).getBytes();
            byte[] value = new byte[draw.nextInt(120)];
            draw.nextBytes(value);
            last = producer.send(new ProducerRecord<>(topic, draw.nextInt(partitions), key, value));
        }
        last.get();
    }

    private static void end(KafkaProducer<byte[], byte[]> producer, boolean abort) {
        if (abort) {
            producer.abortTransaction();
        } else {
            producer.commitTransaction();
        }
    }
}
