import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.sql.CallableStatement;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import org.apache.hadoop.hive.metastore.HiveMetaStore;

/**
 * A Metastore that copies its database while it runs.
 *
 * <p>On the port that the property tidegate.copies names, a line has a folder and the warehouse,
 * parted by a tab: the copy is the folder's "database", its tables are in the folder's "warehouse".
 */
public final class CopyingMetastore {
  public static void main(String[] args) throws Throwable {
    int port = Integer.getInteger("tidegate.copies");
    ServerSocket server = new ServerSocket(port, 50, InetAddress.getLoopbackAddress());
    Thread thread = new Thread(() -> serve(server), "copies");
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
        String[] asked = lines.readLine().split("\t");
        copy(asked[0], asked[1]);
        answers.println("copied");
      } catch (Exception error) {
        error.printStackTrace();
      }
    }
  }

  private static void copy(String folder, String warehouse) throws SQLException {
    String url = System.getProperty("javax.jdo.option.ConnectionURL");
    try (Connection connection = DriverManager.getConnection(url, "APP", "mine");
        CallableStatement backup =
            connection.prepareCall("CALL SYSCS_UTIL.SYSCS_BACKUP_DATABASE(?)")) {
      backup.setString(1, folder);
      backup.execute();
    }
    String copied = "jdbc:derby:;databaseName=" + folder + "/database";
    try (Connection connection = DriverManager.getConnection(copied, "APP", "mine");
        PreparedStatement move =
            connection.prepareStatement(
                "UPDATE SDS SET LOCATION = ? || SUBSTR(LOCATION, ?) WHERE LOCATION LIKE ?")) {
      move.setString(1, "file:" + folder + "/warehouse");
      move.setInt(2, ("file:" + warehouse).length() + 1);
      move.setString(3, "file:" + warehouse + "/%");
      move.executeUpdate();
    }
    try {
      DriverManager.getConnection(copied + ";shutdown=true");
    } catch (SQLException ended) {
      // this is how Derby says that it has ended
    }
  }
}
