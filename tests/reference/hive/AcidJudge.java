import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hive.common.ValidCleanerWriteIdList;
import org.apache.hadoop.hive.common.ValidCompactorWriteIdList;
import org.apache.hadoop.hive.common.ValidReaderWriteIdList;
import org.apache.hadoop.hive.common.ValidTxnList;
import org.apache.hadoop.hive.common.ValidWriteIdList;
import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.metastore.IMetaStoreClient;
import org.apache.hadoop.hive.metastore.api.CompactionType;
import org.apache.hadoop.hive.metastore.api.FieldSchema;
import org.apache.hadoop.hive.metastore.api.SerDeInfo;
import org.apache.hadoop.hive.metastore.api.StorageDescriptor;
import org.apache.hadoop.hive.metastore.api.Table;
import org.apache.hadoop.hive.metastore.txn.entities.CompactionInfo;
import org.apache.hadoop.hive.ql.io.AcidDirectory;
import org.apache.hadoop.hive.ql.io.AcidUtils;
import org.apache.hadoop.hive.ql.io.orc.OrcInputFormat;
import org.apache.hadoop.hive.ql.io.orc.OrcOutputFormat;
import org.apache.hadoop.hive.ql.io.orc.OrcSerde;
import org.apache.hadoop.hive.ql.io.orc.OrcStruct;
import org.apache.hadoop.hive.ql.txn.compactor.MRCompactor;
import org.apache.hadoop.io.NullWritable;
import org.apache.hadoop.mapred.FileInputFormat;
import org.apache.hadoop.mapred.InputSplit;
import org.apache.hadoop.mapred.JobConf;
import org.apache.hadoop.mapred.RecordReader;
import org.apache.hadoop.mapred.Reporter;
import org.apache.hive.common.util.Ref;

/**
 * Asks real Hive about ACID directories on the local disk.
 *
 * <p>In, a line each, parted by tabs: path, question, ValidWriteIdList, ValidTxnList. Out, a line
 * each, parted by tabs, or "error" and why. The question "reader" or "cleaner" asks getAcidState
 * over that listing: base, current, obsolete, aborted (names parted by commas). The question "rows",
 * with column names and types as two more fields, reads the table: a row a field; "compact", with the
 * same, compacts it.
 */
public final class AcidJudge {
  public static void main(String[] args) throws Exception {
    BufferedReader lines =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      System.out.println(answer(line.split("\t", -1)));
      System.out.flush();
    }
  }

  private static String answer(String[] question) {
    try {
      switch (question[1]) {
        case "rows":
          return rows(question);
        case "compact":
          return compact(question);
        default:
          return judge(question[0], question[1].equals("cleaner"), question[2], question[3]);
      }
    } catch (Exception error) {
      return "error\t" + String.valueOf(error.getMessage()).replaceAll("\\s+", " ");
    }
  }

  private static String judge(String path, boolean cleaner, String writeIds, String txns)
      throws Exception {
    Configuration conf = new Configuration(false);
    conf.set(ValidTxnList.VALID_TXNS_KEY, txns);
    Path directory = new Path("file:" + path);
    FileSystem fs = directory.getFileSystem(conf);
    ValidReaderWriteIdList reader = new ValidReaderWriteIdList(writeIds);
    ValidWriteIdList list = cleaner ? new ValidCleanerWriteIdList(reader) : reader;
    AcidDirectory state =
        AcidUtils.getAcidState(
            fs,
            directory,
            conf,
            list,
            Ref.from(false),
            false,
            cleaner ? AcidUtils.getHdfsDirSnapshotsForCleaner(fs, directory) : null);
    Path base = state.getBaseDirectory();
    List<Path> current =
        state.getCurrentDirectories().stream().map(d -> d.getPath()).collect(Collectors.toList());
    List<Path> bases = base == null ? Collections.emptyList() : Collections.singletonList(base);
    return String.join(
        "\t", names(bases), names(current), names(state.getObsolete()),
        names(state.getAbortedDirectories()));
  }

  private static String rows(String[] question) throws Exception {
    JobConf conf = new JobConf(false);
    conf.set(ValidWriteIdList.VALID_WRITEIDS_KEY, question[2]);
    conf.set(ValidTxnList.VALID_TXNS_KEY, question[3]);
    conf.set("transactional", "true");
    conf.set("schema.evolution.columns", question[4]);
    conf.set("schema.evolution.columns.types", question[5]);
    AcidUtils.setAcidOperationalProperties(
        conf, true, AcidUtils.AcidOperationalProperties.getDefault());
    FileInputFormat.setInputPaths(conf, new Path("file:" + question[0]));
    OrcInputFormat format = new OrcInputFormat();
    List<String> found = new ArrayList<>();
    for (InputSplit split : format.getSplits(conf, 1)) {
      RecordReader<NullWritable, OrcStruct> reader =
          format.getRecordReader(split, conf, Reporter.NULL);
      OrcStruct row = reader.createValue();
      while (reader.next(reader.createKey(), row)) {
        found.add(row.toString());
      }
    }
    return String.join("\t", found);
  }

  /** A major compaction by the compactor itself, but for the metastore that would ask for it. */
  private static String compact(String[] question) throws Exception {
    Path directory = new Path("file:" + question[0]);
    HiveConf conf = new HiveConf();
    conf.set("mapreduce.framework.name", "local");
    conf.set("fs.defaultFS", "file:///");
    conf.set("hadoop.tmp.dir", question[0] + "_tmp");
    conf.set(ValidTxnList.VALID_TXNS_KEY, question[3]);
    Table table = new Table();
    table.setDbName("default");
    table.setTableName("t");
    table.setParameters(
        Map.of("transactional", "true", "transactional_properties", "default"));
    List<FieldSchema> columns = new ArrayList<>();
    String[] types = question[5].split(",");
    for (String name : question[4].split(",")) {
      columns.add(new FieldSchema(name, types[columns.size()], null));
    }
    SerDeInfo serde = new SerDeInfo("orc", OrcSerde.class.getName(), Map.of());
    StorageDescriptor storage = new StorageDescriptor();
    storage.setLocation(directory.toString());
    storage.setInputFormat(OrcInputFormat.class.getName());
    storage.setOutputFormat(OrcOutputFormat.class.getName());
    storage.setNumBuckets(-1);
    storage.setCols(columns);
    storage.setSerdeInfo(serde);
    storage.setParameters(Map.of());
    table.setSd(storage);
    CompactionInfo asked = new CompactionInfo("default", "t", null, CompactionType.MAJOR);
    asked.runAs = System.getProperty("user.name");
    ValidWriteIdList list = new ValidCompactorWriteIdList(question[2]);
    AcidDirectory state =
        AcidUtils.getAcidState(
            directory.getFileSystem(conf), directory, conf, list, Ref.from(false), true);
    IMetaStoreClient nobody =
        (IMetaStoreClient)
            Proxy.newProxyInstance(
                AcidJudge.class.getClassLoader(),
                new Class<?>[] {IMetaStoreClient.class},
                (proxy, method, arguments) -> null);
    new MRCompactor(nobody).run(conf, table, storage, list, asked, state);
    return "";
  }

  private static String names(List<Path> paths) {
    return paths.stream().map(Path::getName).collect(Collectors.joining(","));
  }
}
