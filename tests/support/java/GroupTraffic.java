import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.regex.Pattern;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.AlterConfigOp.OpType;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsSpec;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.ScramCredentialInfo;
import org.apache.kafka.clients.admin.ScramMechanism;
import org.apache.kafka.clients.admin.UserScramCredentialUpsertion;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Groups of every protocol, transactions with offsets, and changes of the cluster's metadata; then a
 * line a committed offset: group, topic, partition, offset and the partition's end, with tabs.
 * Arguments: bootstrap servers, a topic of three partitions.
 */
public class GroupTraffic {
    private static final int RECORDS = 60;
    private static final Duration WAIT = Duration.ofMillis(200);
    private static final long PATIENCE_MS = 60_000;

    private final String servers;
    private final String topic;
    private final Admin admin;

    private GroupTraffic(String servers, String topic) {
        this.servers = servers;
        this.topic = topic;
        this.admin = Admin.create(Map.of("bootstrap.servers", servers));
    }

    public static void main(String[] arguments) throws Exception {
        GroupTraffic traffic = new GroupTraffic(arguments[0], arguments[1]);
        traffic.produce();
        traffic.consumeClassic();
        traffic.consumeModern();
        traffic.share();
        traffic.commitInTransactions();
        traffic.takeBack();
        traffic.changeMetadata();
        traffic.printOffsets();
        Runtime.getRuntime().halt(0);
    }

    private void produce() throws Exception {
        try (KafkaProducer<byte[], byte[]> producer = producer(null)) {
            for (int number = 0; number < RECORDS; number++) {
                producer.send(new ProducerRecord<>(topic, number % 3, null, new byte[number])).get();
            }
        }
    }

    private void consumeClassic() {
        try (KafkaConsumer<byte[], byte[]> consumer = consumer("classic", "classic", Map.of("group.instance.id", "i1"))) {
            consumer.subscribe(List.of(topic));
            readSome(consumer, RECORDS / 2);
            Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
            for (TopicPartition partition : consumer.assignment()) {
                offsets.put(partition, new OffsetAndMetadata(
                    consumer.position(partition), Optional.of(0), "read by \u00e9"));
            }
            consumer.commitSync(offsets);
        }
        try (KafkaConsumer<byte[], byte[]> consumer = consumer("forgotten", "classic", Map.of())) {
            consumer.subscribe(Pattern.compile(Pattern.quote(topic)));
            readSome(consumer, 3);
            consumer.commitSync();
        }
    }

    private void consumeModern() {
        KafkaConsumer<byte[], byte[]> consumer = consumer("modern", "consumer", Map.of());
        consumer.subscribe(List.of(topic));
        readSome(consumer, RECORDS);
        consumer.commitSync();
        KafkaConsumer<byte[], byte[]> matching = consumer("matching", "consumer", Map.of());
        matching.subscribe(new SubscriptionPattern(Pattern.quote(topic)));
        readSome(matching, 5);
        matching.commitSync();
    }

    private void share() throws Exception {
        alter(ConfigResource.Type.GROUP, "shared", "share.auto.offset.reset", "earliest");
        Properties settings = reading("shared");
        settings.put("share.acknowledgement.mode", "explicit");
        KafkaShareConsumer<byte[], byte[]> consumer =
            new KafkaShareConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        consumer.subscribe(List.of(topic));
        AcknowledgeType[] kinds = {AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT};
        int read = 0;
        long end = System.currentTimeMillis() + PATIENCE_MS;
        while (read < RECORDS) {
            for (ConsumerRecord<byte[], byte[]> record : consumer.poll(WAIT)) {
                consumer.acknowledge(record, kinds[read++ % kinds.length]);
            }
            consumer.commitSync();
            check(end);
        }
    }

    private void commitInTransactions() throws Exception {
        KafkaProducer<byte[], byte[]> producer = producer("moves");
        ConsumerGroupMetadata group = consumer("transactional", "classic", Map.of()).groupMetadata();
        producer.initTransactions();
        for (int number = 0; number < 4; number++) {
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, 0, null, new byte[] {1})).get();
            producer.sendOffsetsToTransaction(
                Map.of(new TopicPartition(topic, 1), new OffsetAndMetadata(number)),
                group);
            if (number == 1) {
                producer.abortTransaction();
            } else if (number < 3) {
                producer.commitTransaction();
            }
        }
    }

    private void takeBack() throws Exception {
        admin.deleteConsumerGroupOffsets("forgotten", Set.of(new TopicPartition(topic, 2))).all().get();
        admin.deleteConsumerGroups(List.of("forgotten")).all().get();
    }

    private void changeMetadata() throws Exception {
        admin.createTopics(List.of(
            new NewTopic("kept", 2, (short) 1).configs(Map.of("retention.ms", "5000")),
            new NewTopic("removed", 1, (short) 1))).all().get();
        admin.createPartitions(Map.of("kept", NewPartitions.increaseTo(3))).all().get();
        alter(ConfigResource.Type.TOPIC, "kept", "cleanup.policy", "compact");
        alter(ConfigResource.Type.BROKER, "", "log.cleaner.threads", "1");
        admin.deleteTopics(List.of("removed")).all().get();
        admin.alterUserScramCredentials(List.of(new UserScramCredentialUpsertion(
            "alice", new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), "secret"))).all().get();
        admin.alterClientQuotas(List.of(new ClientQuotaAlteration(
            new ClientQuotaEntity(Map.of("user", "alice")),
            List.of(new ClientQuotaAlteration.Op("request_percentage", 12.5))))).all().get();
    }

    private void printOffsets() throws Exception {
        Map<String, ListConsumerGroupOffsetsSpec> groups = new HashMap<>();
        for (var group : admin.listGroups().valid().get()) {
            if (!group.groupId().equals("shared")) {
                groups.put(group.groupId(), new ListConsumerGroupOffsetsSpec());
            }
        }
        var offsets = admin.listConsumerGroupOffsets(groups).all().get();
        Map<TopicPartition, OffsetSpec> latest = new HashMap<>();
        offsets.values().forEach(each -> each.keySet().forEach(it -> latest.put(it, OffsetSpec.latest())));
        var ends = admin.listOffsets(latest).all().get();
        offsets.forEach((group, each) -> each.forEach((partition, offset) -> {
            if (offset != null) {
                System.out.printf("offset\t%s\t%s\t%d\t%d\t%d%n", group, partition.topic(),
                    partition.partition(), offset.offset(), ends.get(partition).offset());
            }
        }));
    }

    private void alter(ConfigResource.Type type, String name, String key, String value) throws Exception {
        var operation = new AlterConfigOp(new ConfigEntry(key, value), OpType.SET);
        admin.incrementalAlterConfigs(Map.of(new ConfigResource(type, name), List.of(operation))).all().get();
    }

    private void readSome(Consumer<byte[], byte[]> consumer, int wanted) {
        int read = 0;
        long end = System.currentTimeMillis() + PATIENCE_MS;
        while (read < wanted) {
            read += consumer.poll(WAIT).count();
            check(end);
        }
    }

    private static void check(long end) {
        if (System.currentTimeMillis() > end) {
            throw new IllegalStateException("nothing more to read");
        }
    }

    private KafkaConsumer<byte[], byte[]> consumer(String group, String protocol, Map<String, String> more) {
        Properties settings = reading(group);
        settings.put("group.protocol", protocol);
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        settings.put("max.poll.records", "10");
        settings.putAll(more);
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private Properties reading(String group) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", servers);
        settings.put("group.id", group);
        settings.put("client.id", "client of " + group);
        return settings;
    }

    private KafkaProducer<byte[], byte[]> producer(String transactionalId) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", servers);
        if (transactionalId != null) {
            settings.put("transactional.id", transactionalId);
        }
        return new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
    }
}
