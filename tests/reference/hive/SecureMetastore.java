import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Paths;
import org.apache.hadoop.hive.metastore.HiveMetaStore;

/** A Metastore with the core-site.xml of the directory that the property tidegate.conf names. */
public final class SecureMetastore {
  public static void main(String[] args) throws Throwable {
    URL folder = Paths.get(System.getProperty("tidegate.conf")).toUri().toURL();
    Thread thread = Thread.currentThread();
    thread.setContextClassLoader(
        new URLClassLoader(new URL[] {folder}, thread.getContextClassLoader()));
    HiveMetaStore.main(args);
  }
}
