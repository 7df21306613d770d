import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;

/**
 * What Kafka's own code needs to check and visit every record of a file and build nothing.
 * Each line read from standard input names a file; the answer is nanoseconds, records and bytes.
 * The process stays up between lines, so that the code it runs is compiled and warm.
 */
public class FileRecordsLoop {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String path = lines.readLine(); path != null; path = lines.readLine()) {
            long start = System.nanoTime();
            long records = 0;
            long bytes = 0;
            try (FileRecords file = FileRecords.open(new File(path), false)) {
                for (RecordBatch batch : file.batches()) {
                    batch.ensureValid();
                    for (Record record : batch) {
                        ByteBuffer key = record.key();
                        ByteBuffer value = record.value();
                        bytes += (key == null ? 0 : key.remaining()) + (value == null ? 0 : value.remaining());
                        records++;
                    }
                }
            }
            System.out.println((System.nanoTime() - start) + " " + records + " " + bytes);
        }
    }
}
