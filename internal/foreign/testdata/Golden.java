import java.util.Arrays;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import org.apache.zookeeper.AddWatchMode;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Op;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.admin.ZooKeeperAdmin;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.Stat;

/** Sends each operation, with Apache's own client, through a proxy that writes down what passes. */
public class Golden {
    static ZooKeeper zk;
    static volatile CountDownLatch connected = new CountDownLatch(1);

    public static void main(String[] args) throws Exception {
        Watcher watcher = event -> {
            if (event.getState() == Watcher.Event.KeeperState.SyncConnected && event.getType() == Watcher.Event.EventType.None) {
                connected.countDown();
            }
        };
        zk = new ZooKeeper(args[0], 4_000, watcher);
        connected.await();
        List<ACL> open = Ids.OPEN_ACL_UNSAFE;
        byte[] data = "data".getBytes();
        zk.create("/g", data, open, CreateMode.PERSISTENT);
        zk.create("/g/null", null, open, CreateMode.PERSISTENT);
        zk.create("/g/s-", new byte[0], open, CreateMode.EPHEMERAL_SEQUENTIAL, new Stat());
        zk.create("/g/c", data, open, CreateMode.CONTAINER);
        zk.create("/g/t", data, open, CreateMode.PERSISTENT_WITH_TTL, new Stat(), 60_000);
        fails(() -> zk.create("/g", data, open, CreateMode.PERSISTENT));
        zk.exists("/g", true);
        fails(() -> zk.getData("/none", true, null));
        zk.exists("/none", true);
        zk.getData("/g", true, new Stat());
        zk.getData("/g/null", false, new Stat());
        zk.setData("/g", "other".getBytes(), 0);
        zk.getChildren("/g", true);
        zk.getChildren("/g", true, new Stat());
        zk.create("/g/seen", new byte[0], open, CreateMode.PERSISTENT);
        zk.getAllChildrenNumber("/g");
        zk.getEphemerals("/g");
        zk.whoAmI();
        zk.addAuthInfo("digest", "user:secret".getBytes());
        zk.getACL("/g", new Stat());
        zk.setACL("/g/c", Ids.CREATOR_ALL_ACL, 0);
        zk.getACL("/g/c", new Stat());
        zk.sync("/g", (rc, path, ctx) -> {}, null);
        zk.multi(Arrays.asList(
                Op.check("/g", 1), Op.create("/g/m", data, open, CreateMode.PERSISTENT), Op.setData("/g/m", data, 0),
                Op.create("/g/mt", data, open, CreateMode.PERSISTENT_WITH_TTL, 1_000_000), Op.create("/g/mc", data, open, CreateMode.CONTAINER),
                Op.delete("/g/m", -1)));
        fails(() -> zk.multi(Arrays.asList(Op.check("/g", 1), Op.delete("/none", 0), Op.delete("/g/m", -1))));
        zk.multi(Arrays.asList(Op.getData("/g"), Op.getChildren("/g"), Op.getData("/none")));
        zk.addWatch("/g", watcher, AddWatchMode.PERSISTENT_RECURSIVE);
        zk.removeWatches("/g", watcher, Watcher.WatcherType.Any, false);
        fails(() -> {
            zk.removeAllWatches("/nobody", Watcher.WatcherType.Data, false);
            return null;
        });
        zk.getData("/g", true, null);
        zk.exists("/later", true);
        zk.getChildren("/g", true);
        zk.removeAllWatches("/g", Watcher.WatcherType.Any, false);
        zk.getData("/g", true, null);
        cut();
        zk.getData("/g", false, null);
        zk.addWatch("/g", AddWatchMode.PERSISTENT);
        zk.addWatch("/g/c", AddWatchMode.PERSISTENT_RECURSIVE);
        cut();
        zk.getData("/g", false, null);
        ZooKeeperAdmin admin = new ZooKeeperAdmin(args[0], 4_000, event -> {});
        fails(() -> admin.reconfigure("server.1=localhost:1:2;3", null, null, -1, new Stat()));
        fails(() -> admin.reconfigure("a", "b", "c", -1, new Stat()));
        admin.close();
        Thread.sleep(1_500); // it pings
        zk.delete("/g/seen", 0);
        zk.close();
        System.out.println("done");
    }

    interface Work extends Callable<Object> {}

    static void fails(Work work) throws Exception {
        try {
            work.call();
        } catch (KeeperException e) {
            return;
        }
        throw new IllegalStateException("no error");
    }

    /** Has the proxy cut the connection, so that the client sets its watches again. */
    static void cut() throws Exception {
        connected = new CountDownLatch(1);
        try {
            zk.getData("/cut", false, null);
        } catch (KeeperException.ConnectionLossException e) {
            // as it should be
        }
        connected.await();
    }
}
