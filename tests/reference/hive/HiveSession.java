import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.FutureTask;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.metastore.HiveMetaStoreClient;
import org.apache.hadoop.hive.ql.DriverFactory;
import org.apache.hadoop.hive.ql.IDriver;
import org.apache.hadoop.hive.ql.exec.UDF;
import org.apache.hadoop.hive.ql.session.SessionState;
import org.apache.hadoop.hive.ql.txn.compactor.Worker;
import org.apache.hadoop.io.IntWritable;

/**
 * Real Hive in this JVM, on the Metastore and the directory that the arguments name.
 *
 * <p>In, a line each, parted by tabs; out, a line each: the rows parted by tabs, or "error" and why.
 * "run" and a statement answers with its rows. "start", a name and a statement runs it on a thread
 * and answers at once; "finish" and the name answers with its rows. "worker" starts Hive's own
 * compactor, "idle" stops it.
 */
public final class HiveSession {
  private static final String[] CAPABILITIES = {
    "HIVEFULLACIDREAD", "HIVEFULLACIDWRITE", "HIVEMANAGEDINSERTREAD", "HIVEMANAGEDINSERTWRITE"
  };
  private static final Map<String, FutureTask<String>> STARTED = new ConcurrentHashMap<>();
  private static String uri;
  private static File folder;
  private static AtomicBoolean stop = new AtomicBoolean();
  private static Worker worker;

  public static void main(String[] args) throws Exception {
    PrintStream answers = System.out;
    System.setOut(System.err); // whatever Hive prints is no answer
    HiveMetaStoreClient.setProcessorIdentifier("tidegate-tests");
    HiveMetaStoreClient.setProcessorCapabilities(CAPABILITIES);
    uri = args[0];
    folder = new File(args[1]);
    BufferedReader lines =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      answers.println(answer(line.split("\t", -1)));
      answers.flush();
    }
    System.exit(0);
  }

  private static String answer(String[] asked) {
    try {
      switch (asked[0]) {
        case "run":
          return inSession(asked[1]).get();
        case "start":
          STARTED.put(asked[1], inSession(asked[2]));
          return "";
        case "finish":
          return STARTED.remove(asked[1]).get();
        case "worker":
          stop = new AtomicBoolean();
          worker = new Worker();
          SessionState.start(new SessionState(conf()));
          worker.setConf(conf());
          worker.init(stop);
          worker.start();
          return "";
        case "idle":
          stop.set(true);
          worker.interrupt();
          worker.join();
          return "";
        default:
          return "error\tunknown: " + asked[0];
      }
    } catch (Exception error) {
      return failed(error);
    }
  }

  /** Every statement has a session of its own, and so a transaction manager of its own. */
  private static FutureTask<String> inSession(String statement) {
    FutureTask<String> task = new FutureTask<>(() -> run(statement));
    new Thread(task, "statement").start();
    return task;
  }

  private static String run(String statement) {
    HiveConf conf = conf();
    SessionState session = SessionState.start(new SessionState(conf));
    try (IDriver driver = DriverFactory.newDriver(conf)) {
      driver.run("CREATE TEMPORARY FUNCTION held AS '" + Held.class.getName() + "'");
      driver.run(statement);
      List<String> rows = new ArrayList<>();
      List<String> some = new ArrayList<>();
      while (driver.getResults(some)) {
        some.forEach(row -> rows.add(row.replace('\t', ' ')));
        some.clear();
      }
      return String.join("\t", rows);
    } catch (Exception error) {
      return failed(error);
    } finally {
      try {
        session.close();
      } catch (Exception error) {
        System.err.println(error);
      }
    }
  }

  private static String failed(Exception error) {
    error.printStackTrace();
    return "error\t" + String.valueOf(error.getMessage()).replaceAll("\\s+", " ");
  }

  private static HiveConf conf() {
    HiveConf conf = new HiveConf();
    conf.set("hive.metastore.uris", uri);
    conf.set("metastore.thrift.uris", uri);
    conf.set("hive.execution.engine", "mr");
    conf.set("mapreduce.framework.name", "local");
    conf.set("fs.defaultFS", "file:///");
    conf.set("hadoop.tmp.dir", new File(folder, "hadoop").getPath());
    conf.set("hive.exec.scratchdir", new File(folder, "scratch").getPath());
    conf.set("hive.exec.local.scratchdir", new File(folder, "local").getPath());
    conf.set("hive.downloaded.resources.dir", new File(folder, "resources").getPath());
    conf.set("hive.support.concurrency", "true");
    conf.set("hive.txn.manager", "org.apache.hadoop.hive.ql.lockmgr.DbTxnManager");
    // each query reads by a job with a mapper for each file, one after the other
    conf.set("hive.fetch.task.conversion", "none");
    conf.set("hive.input.format", "org.apache.hadoop.hive.ql.io.HiveInputFormat");
    conf.set("hive.stats.autogather", "false");
    conf.set("hive.query.reexecution.enabled", "false");
    // its answers come from the files, also those that somebody removed meanwhile
    conf.set("hive.query.results.cache.enabled", "false");
    conf.set("hive.compactor.worker.sleep.time", "500ms");
    return conf;
  }

  /** A function that answers with its number once the file that is named is there. */
  public static final class Held extends UDF {
    public IntWritable evaluate(IntWritable number, String file) throws InterruptedException {
      new File(file + ".reached").getParentFile().mkdirs();
      try {
        new File(file + ".reached").createNewFile();
      } catch (java.io.IOException error) {
        throw new IllegalStateException(error);
      }
      while (!new File(file).exists()) {
        Thread.sleep(20);
      }
      return number;
    }
  }
}
