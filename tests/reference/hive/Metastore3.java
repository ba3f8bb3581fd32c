import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hive.metastore.HiveMetaStore;
import org.apache.hadoop.hive.metastore.conf.MetastoreConf;
import org.apache.hadoop.hive.metastore.txn.CompactionInfo;
import org.apache.hadoop.hive.metastore.txn.TxnStore;
import org.apache.hadoop.hive.metastore.txn.TxnUtils;

/**
 * A Metastore of Hive 3, and what its own Worker does to the queue of compactions.
 *
 * <p>Hive 3 runs the Worker in the Metastore and has no Thrift calls for it. So this makes the same
 * calls of TxnStore, on the port that the property tidegate.worker names: a line "next" takes an
 * entry of the queue and answers with its id, or 0; "compacted", its id and the highest write id ends
 * it.
 */
public final class Metastore3 {
  private static CompactionInfo taken;

  public static void main(String[] args) throws Throwable {
    int port = Integer.getInteger("tidegate.worker");
    ServerSocket server = new ServerSocket(port, 50, InetAddress.getLoopbackAddress());
    Thread thread = new Thread(() -> serve(server), "worker");
    thread.setDaemon(true);
    thread.start();
    HiveMetaStore.main(args);
  }

  private static void serve(ServerSocket server) {
    while (true) {
      try (Socket socket = server.accept();
          BufferedReader lines =
              new BufferedReader(new InputStreamReader(socket.getInputStream()));
          PrintStream answers = new PrintStream(socket.getOutputStream(), true)) {
        answers.println(answer(lines.readLine().split(" ")));
      } catch (Exception error) {
        error.printStackTrace();
      }
    }
  }

  private static String answer(String[] asked) {
    try {
      Configuration conf = MetastoreConf.newMetastoreConf();
      TxnStore store = TxnUtils.getTxnStore(conf);
      if (asked[0].equals("next")) {
        taken = store.findNextToCompact("worker");
        return taken == null ? "0" : String.valueOf(taken.id);
      }
      store.setCompactionHighestWriteId(taken, Long.parseLong(asked[2]));
      store.markCompacted(taken);
      return asked[1];
    } catch (Exception error) {
      error.printStackTrace();
      return "error " + error;
    }
  }
}
