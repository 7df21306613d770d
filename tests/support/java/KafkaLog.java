import java.io.BufferedOutputStream;
import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.concurrent.ScheduledFuture;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.internal.DefaultRecordBatch;
import org.apache.kafka.common.record.internal.FileRecords.TimestampAndOffset;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.log.Cleaner;
import org.apache.kafka.storage.internals.log.LogCleanerManager;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogSegment;
import org.apache.kafka.storage.internals.log.LogToClean;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.utils.Throttler;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/**
 * A broker's own log, cleaner, retention and lookups, without the broker, for one request a line.
 *
 * A request is an operation, a partition directory and settings (name=value), with tabs between
 * them. `now` is the clock, `start` the log start offset, `clean` whether the directory was shut
 * cleanly; names that begin with `topic.` are topic settings. The answer is any number of lines and
 * one with a dot; an operation that Kafka's code refuses answers with a line that begins with
 * `refused`.
 */
public class KafkaLog {
    private static final int DEDUPE_BUFFER_BYTES = 1 << 20;
    private static final int IO_BUFFER_BYTES = 1 << 16;
    private static final int MAX_TRANSACTION_TIMEOUT_MS = 900_000;
    private static final int EXPIRATION_CHECK_MS = 600_000;

    private final PrintStream out;
    private final BrokerTopicStats stats = new BrokerTopicStats();

    private KafkaLog(PrintStream out) {
        this.out = out;
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = new PrintStream(new BufferedOutputStream(System.out), false, StandardCharsets.UTF_8);
        // What Kafka logs must not come between the answers.
        System.setOut(System.err);
        new KafkaLog(answers).serve();
    }

    private void serve() throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] fields = line.split("\t");
            try {
                answer(fields[0], new File(fields[1]), settings(fields));
            } catch (Exception error) {
                out.println("refused " + error);
                error.printStackTrace();
            }
            out.println(".");
            out.flush();
        }
    }

    private static Map<String, String> settings(String[] fields) {
        return Arrays.stream(fields, 2, fields.length)
            .map(field -> field.split("=", 2))
            .collect(Collectors.toMap(pair -> pair[0], pair -> pair[1]));
    }

    private void answer(String operation, File directory, Map<String, String> settings) throws Exception {
        if (operation.equals("dump")) {
            dump(directory);
            return;
        }
        Clock clock = new Clock(Long.parseLong(settings.get("now")));
        UnifiedLog log = open(directory, settings, clock);
        try {
            switch (operation) {
                case "compact" -> compact(log, settings, clock);
                case "retain" -> retain(log);
                case "lookup" -> lookup(log, settings);
                default -> throw new IllegalArgumentException(operation);
            }
        } finally {
            log.close();
        }
    }

    private UnifiedLog open(File directory, Map<String, String> settings, Time clock) throws Exception {
        Properties topic = new Properties();
        settings.forEach((name, value) -> {
            if (name.startsWith("topic."))
                topic.put(name.substring("topic.".length()), value);
        });
        UnifiedLog log = UnifiedLog.create(
            directory,
            new LogConfig(topic),
            Long.parseLong(settings.get("start")),
            0L,
            new NeverScheduler(),
            stats,
            clock,
            MAX_TRANSACTION_TIMEOUT_MS,
            new ProducerStateManagerConfig(Integer.parseInt(settings.get("producer.expiration")), false),
            EXPIRATION_CHECK_MS,
            new LogDirFailureChannel(1),
            Boolean.parseBoolean(settings.get("clean")),
            Optional.empty()
        );
        log.updateHighWatermark(log.logEndOffset());
        log.removeExpiredProducers(clock.milliseconds());
        return log;
    }

    /** One round, as the cleaner's thread begins it; the log start offset's segments go first. */
    private void compact(UnifiedLog log, Map<String, String> settings, Clock clock) throws Exception {
        log.deleteOldSegments();
        Optional<Long> checkpointed = Optional.ofNullable(settings.get("checkpoint")).map(Long::valueOf);
        Method cleanableOffsets = LogCleanerManager.class.getDeclaredMethod(
            "cleanableOffsets", UnifiedLog.class, Optional.class, long.class);
        cleanableOffsets.setAccessible(true);
        Object offsets = cleanableOffsets.invoke(null, log, checkpointed, clock.milliseconds());
        LogToClean chosen = new LogToClean(
            log, field(offsets, "firstDirtyOffset"), field(offsets, "firstUncleanableDirtyOffset"), false);
        long end = chosen.firstDirtyOffset();
        if (chosen.cleanableBytes() > 0) {
            Cleaner cleaner = new Cleaner(
                0,
                new SkimpyOffsetMap(DEDUPE_BUFFER_BYTES),
                IO_BUFFER_BYTES,
                IO_BUFFER_BYTES,
                0.9,
                new Throttler(Double.MAX_VALUE, Long.MAX_VALUE, "throttler", "entries", clock),
                clock,
                partition -> { });
            end = cleaner.clean(chosen).getKey();
        }
        out.printf("cleaned %d to %d%n", chosen.firstDirtyOffset(), end);
    }

    private static long field(Object record, String name) throws Exception {
        Method getter = record.getClass().getDeclaredMethod(name);
        getter.setAccessible(true);
        return (Long) getter.invoke(record);
    }

    private void retain(UnifiedLog log) throws Exception {
        log.deleteOldSegments();
        out.printf("start %d end %d segments %s%n", log.logStartOffset(), log.logEndOffset(),
            log.logSegments().stream().map(segment -> segment.baseOffset()).toList());
    }

    private void lookup(UnifiedLog log, Map<String, String> settings) throws Exception {
        for (String text : settings.get("timestamps").split(",")) {
            long timestamp = Long.parseLong(text);
            Optional<TimestampAndOffset> found =
                log.fetchOffsetByTimestamp(timestamp, Optional.empty()).timestampAndOffsetOpt();
            if (found.isPresent())
                out.println(found.get().offset + " " + found.get().timestamp);
            else
                out.println("none before " + endOfFirstReaching(log, timestamp));
        }
    }

    /** Where the one segment ends in which UnifiedLog looks for a timestamp. */
    private static long endOfFirstReaching(UnifiedLog log, long timestamp) throws Exception {
        for (LogSegment segment : log.logSegments())
            if (segment.largestTimestamp() >= timestamp)
                return segment.readNextOffset();
        return log.logEndOffset();
    }

    /** All that is in the segments' logs, as Kafka reads it, and which bytes the indexes hold. */
    private void dump(File directory) throws Exception {
        String[] names = directory.list((folder, name) -> name.endsWith(".log"));
        Arrays.sort(names);
        for (String name : names) {
            out.println("segment " + Long.parseLong(name.substring(0, name.length() - 4)));
            ByteBuffer bytes = ByteBuffer.wrap(Files.readAllBytes(directory.toPath().resolve(name)));
            MemoryRecords records = MemoryRecords.readableRecords(bytes);
            for (MutableRecordBatch batch : records.batches())
                dump(batch);
            if (records.validBytes() != records.sizeInBytes())
                throw new IllegalStateException(name + " does not end with a batch");
        }
    }

    private void dump(MutableRecordBatch batch) {
        batch.ensureValid();
        out.printf(
            "batch %d to %d magic=%d codec=%s %s max=%d producer=%d/%d sequence=%d to %d count=%s "
                + "transactional=%b control=%b horizon=%s epoch=%d base=%s%n",
            batch.baseOffset(), batch.lastOffset(), batch.magic(), batch.compressionType(),
            batch.timestampType(), batch.maxTimestamp(), batch.producerId(), batch.producerEpoch(),
            batch.baseSequence(), batch.lastSequence(), batch.countOrNull(), batch.isTransactional(),
            batch.isControlBatch(), batch.deleteHorizonMs(), batch.partitionLeaderEpoch(),
            batch instanceof DefaultRecordBatch current ? current.baseTimestamp() : "none");
        for (Record record : batch) {
            record.ensureValid();
            out.printf("  %d at %d: %s = %s", record.offset(), record.timestamp(),
                text(record.key()), text(record.value()));
            for (Header header : record.headers())
                out.printf(" [%s: %s]", text(StandardCharsets.UTF_8.encode(header.key())),
                    text(header.value() == null ? null : ByteBuffer.wrap(header.value())));
            out.println();
        }
    }

    private static String text(ByteBuffer data) {
        if (data == null)
            return "null";
        byte[] bytes = new byte[data.remaining()];
        data.duplicate().get(bytes);
        return "x" + HexFormat.of().formatHex(bytes);
    }

    /** Stands still. */
    private record Clock(long milliseconds) implements Time {
        @Override
        public long nanoseconds() {
            return milliseconds * 1_000_000;
        }

        @Override
        public void sleep(long ms) {
            throw new UnsupportedOperationException();
        }

        @Override
        public void waitObject(Object object, Supplier<Boolean> condition, long deadline) {
            throw new UnsupportedOperationException();
        }
    }

    /** Runs nothing: what is deleted stays under its `.deleted` name. */
    private static final class NeverScheduler implements Scheduler {
        private static final ScheduledFuture<?> NEVER = (ScheduledFuture<?>) Proxy.newProxyInstance(
            KafkaLog.class.getClassLoader(), new Class<?>[] {ScheduledFuture.class}, (self, method, arguments) ->
                method.getReturnType() == boolean.class ? false : null);

        @Override
        public void startup() { }

        @Override
        public void shutdown() { }

        @Override
        public ScheduledFuture<?> schedule(String name, Runnable task, long delayMs, long periodMs) {
            return NEVER;
        }

        @Override
        public void resizeThreadPool(int size) { }
    }
}
