import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.barriers.DistributedDoubleBarrier;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.cache.PathChildrenCache;
import org.apache.curator.framework.recipes.cache.TreeCache;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.recipes.nodes.PersistentNode;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.framework.recipes.shared.SharedCountListener;
import org.apache.curator.framework.recipes.shared.SharedCountReader;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.RetryOneTime;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;

/**
 * Apache Curator's recipes, each used by two clients of one server. What it prints must not depend on the server.
 */
public class Foreign {
    static CuratorFramework one;
    static CuratorFramework two;
    static final ExecutorService threads = Executors.newCachedThreadPool();

    public static void main(String[] args) throws Exception {
        one = client(args[0]);
        two = client(args[0]);
        mutex();
        readWriteLock();
        semaphore();
        latch();
        counters();
        doubleBarrier();
        pathCache();
        treeCache();
        curatorCache();
        persistentNode();
        operations();
        one.close();
        two.close();
        System.exit(0); // Curator's own threads may live on for a while
    }

    static CuratorFramework client(String connect) throws Exception {
        CuratorFramework client = CuratorFrameworkFactory.newClient(connect, 20_000, 10_000, new RetryOneTime(100));
        client.start();
        client.blockUntilConnected();
        return client;
    }

    static void say(String recipe, Object... words) {
        StringBuilder line = new StringBuilder(recipe).append(':');
        for (Object word : words) {
            line.append(' ').append(word);
        }
        System.out.println(line);
    }

    /** A lock belongs to a thread: what b does happens in another one. */
    static <T> T elsewhere(Callable<T> work) throws Exception {
        return threads.submit(work).get();
    }

    static void mutex() throws Exception {
        InterProcessMutex a = new InterProcessMutex(one, "/mutex");
        InterProcessMutex b = new InterProcessMutex(two, "/mutex");
        a.acquire();
        a.acquire();
        boolean overtaken = elsewhere(() -> b.acquire(50, TimeUnit.MILLISECONDS));
        a.release();
        Future<Boolean> waiting = threads.submit(() -> {
            boolean got = b.acquire(10, TimeUnit.SECONDS);
            b.release();
            return got;
        });
        while (a.getParticipantNodes().size() < 2) {
            Thread.sleep(1);
        }
        a.release();
        say("mutex", "overtaken", overtaken, "handed on", waiting.get());

        AtomicInteger inside = new AtomicInteger();
        AtomicInteger most = new AtomicInteger();
        List<Future<?>> all = new ArrayList<>();
        for (int i = 0; i < 6; i++) {
            InterProcessMutex m = new InterProcessMutex(i % 2 == 0 ? one : two, "/mutex");
            all.add(threads.submit(() -> {
                for (int n = 0; n < 10; n++) {
                    m.acquire();
                    most.accumulateAndGet(inside.incrementAndGet(), Math::max);
                    inside.decrementAndGet();
                    m.release();
                }
                return null;
            }));
        }
        for (Future<?> f : all) {
            f.get();
        }
        say("mutex", "most at once", most.get(), "left", one.getChildren().forPath("/mutex").size());
    }

    static void readWriteLock() throws Exception {
        InterProcessReadWriteLock a = new InterProcessReadWriteLock(one, "/rw");
        InterProcessReadWriteLock b = new InterProcessReadWriteLock(two, "/rw");
        a.readLock().acquire();
        boolean reads = elsewhere(() -> b.readLock().acquire(10, TimeUnit.SECONDS));
        boolean writes = elsewhere(() -> new InterProcessReadWriteLock(two, "/rw").writeLock().acquire(50, TimeUnit.MILLISECONDS));
        a.readLock().release();
        say("read-write lock", "second reader", reads, "writer beside readers", writes);
        InterProcessReadWriteLock c = new InterProcessReadWriteLock(one, "/rw2");
        c.writeLock().acquire();
        c.readLock().acquire();
        c.writeLock().release();
        boolean after = elsewhere(() -> new InterProcessReadWriteLock(two, "/rw2").readLock().acquire(10, TimeUnit.SECONDS));
        c.readLock().release();
        say("read-write lock", "reader after downgrade", after);
    }

    static void semaphore() throws Exception {
        InterProcessSemaphoreV2 a = new InterProcessSemaphoreV2(one, "/semaphore", 2);
        InterProcessSemaphoreV2 b = new InterProcessSemaphoreV2(two, "/semaphore", 2);
        Lease first = a.acquire();
        Lease second = b.acquire();
        Lease third = b.acquire(50, TimeUnit.MILLISECONDS);
        first.close();
        Lease fourth = b.acquire(10, TimeUnit.SECONDS);
        say("semaphore", "third of two", third != null, "after a return", fourth != null, "holders", a.getParticipantNodes().size());
        second.close();
        fourth.close();
    }

    static void latch() throws Exception {
        LeaderLatch a = new LeaderLatch(one, "/latch", "a");
        LeaderLatch b = new LeaderLatch(two, "/latch", "b");
        a.start();
        a.await();
        b.start();
        while (b.getParticipants().size() < 2) {
            Thread.sleep(1);
        }
        say("latch", "leader", b.getLeader().getId(), "b leads", b.hasLeadership());
        a.close();
        b.await();
        say("latch", "leader", b.getLeader().getId(), "b leads", b.hasLeadership());
        b.close();
    }

    static void counters() throws Exception {
        List<Future<?>> all = new ArrayList<>();
        for (CuratorFramework client : List.of(one, two)) {
            DistributedAtomicLong counter = new DistributedAtomicLong(client, "/counter", new RetryOneTime(1));
            all.add(threads.submit(() -> {
                for (int n = 0; n < 20;) {
                    n += counter.increment().succeeded() ? 1 : 0;
                }
                return null;
            }));
        }
        for (Future<?> f : all) {
            f.get();
        }
        say("counter", new DistributedAtomicLong(one, "/counter", new RetryOneTime(1)).get().postValue());

        SharedCount a = new SharedCount(one, "/count", 7);
        SharedCount b = new SharedCount(two, "/count", 7);
        BlockingQueue<Integer> told = new LinkedBlockingQueue<>();
        b.addListener(new SharedCountListener() {
            public void countHasChanged(SharedCountReader reader, int count) {
                told.add(count);
            }

            public void stateChanged(CuratorFramework client, ConnectionState state) {}
        });
        a.start();
        b.start();
        a.setCount(8);
        say("shared count", told.poll(10, TimeUnit.SECONDS), b.getCount());
        a.close();
        b.close();
    }

    static void doubleBarrier() throws Exception {
        DistributedDoubleBarrier a = new DistributedDoubleBarrier(one, "/barrier", 2);
        DistributedDoubleBarrier b = new DistributedDoubleBarrier(two, "/barrier", 2);
        boolean alone = a.enter(50, TimeUnit.MILLISECONDS);
        CountDownLatch entered = new CountDownLatch(1);
        DistributedDoubleBarrier c = new DistributedDoubleBarrier(one, "/barrier2", 2);
        DistributedDoubleBarrier d = new DistributedDoubleBarrier(two, "/barrier2", 2);
        Future<Boolean> other = threads.submit(() -> {
            d.enter();
            entered.countDown();
            return d.leave(10, TimeUnit.SECONDS);
        });
        boolean both = c.enter(10, TimeUnit.SECONDS);
        entered.await();
        boolean left = c.leave(10, TimeUnit.SECONDS);
        say("double barrier", "alone", alone, "both", both, "left", left, other.get());
    }

    static void pathCache() throws Exception {
        BlockingQueue<String> told = new LinkedBlockingQueue<>();
        PathChildrenCache cache = new PathChildrenCache(two, "/path", true);
        cache.getListenable().addListener((client, event) -> {
            told.add(event.getType() + (event.getData() == null ? "" : " " + event.getData().getPath() + " " + new String(event.getData().getData())));
        });
        one.create().forPath("/path", new byte[0]);
        one.create().forPath("/path/old", "o".getBytes());
        cache.start(PathChildrenCache.StartMode.POST_INITIALIZED_EVENT);
        say("path cache", told.poll(10, TimeUnit.SECONDS));
        say("path cache", told.poll(10, TimeUnit.SECONDS));
        one.create().forPath("/path/new", "n".getBytes());
        say("path cache", told.poll(10, TimeUnit.SECONDS));
        one.setData().forPath("/path/new", "m".getBytes());
        say("path cache", told.poll(10, TimeUnit.SECONDS));
        one.delete().forPath("/path/old");
        say("path cache", told.poll(10, TimeUnit.SECONDS), "holds", cache.getCurrentData().size());
        cache.close();
    }

    static void treeCache() throws Exception {
        BlockingQueue<String> told = new LinkedBlockingQueue<>();
        TreeCache cache = TreeCache.newBuilder(two, "/tree").build();
        one.create().creatingParentsIfNeeded().forPath("/tree/a/b", "b".getBytes());
        cache.getListenable().addListener((client, event) -> told.add(event.getType() + (event.getData() == null ? "" : " " + event.getData().getPath())));
        cache.start();
        for (int i = 0; i < 4; i++) {
            say("tree cache", told.poll(10, TimeUnit.SECONDS));
        }
        one.create().forPath("/tree/a/b/c", new byte[0]);
        say("tree cache", told.poll(10, TimeUnit.SECONDS));
        one.setData().forPath("/tree/a/b", "bb".getBytes());
        say("tree cache", told.poll(10, TimeUnit.SECONDS), new String(cache.getCurrentData("/tree/a/b").getData()));
        one.delete().forPath("/tree/a/b/c");
        say("tree cache", told.poll(10, TimeUnit.SECONDS));
        cache.close();
    }

    /** The newer cache: it watches with one persistent, recursive watch. */
    static void curatorCache() throws Exception {
        BlockingQueue<String> told = new LinkedBlockingQueue<>();
        CuratorCache cache = CuratorCache.build(two, "/cache");
        one.create().forPath("/cache", "x".getBytes());
        cache.listenable().addListener((type, before, after) -> told.add(type + " " + (after == null ? before : after).getPath()));
        cache.start();
        say("cache", told.poll(10, TimeUnit.SECONDS));
        one.create().forPath("/cache/a", new byte[0]);
        say("cache", told.poll(10, TimeUnit.SECONDS));
        one.create().forPath("/cache/a/b", new byte[0]);
        say("cache", told.poll(10, TimeUnit.SECONDS));
        one.setData().forPath("/cache/a", "y".getBytes());
        say("cache", told.poll(10, TimeUnit.SECONDS));
        one.delete().forPath("/cache/a/b");
        say("cache", told.poll(10, TimeUnit.SECONDS), "holds", cache.size());
        cache.close();
    }

    static void persistentNode() throws Exception {
        PersistentNode node = new PersistentNode(one, CreateMode.EPHEMERAL, false, "/persistent", "p".getBytes());
        node.start();
        say("persistent node", "made", node.waitForInitialCreate(10, TimeUnit.SECONDS));
        long before = two.checkExists().forPath("/persistent").getCzxid();
        two.delete().forPath("/persistent");
        while (two.checkExists().forPath("/persistent") == null) {
            Thread.sleep(1);
        }
        say("persistent node", "made again", two.checkExists().forPath("/persistent").getCzxid() > before, new String(two.getData().forPath("/persistent")));
        node.close();
        say("persistent node", "after close", two.checkExists().forPath("/persistent"));
    }

    /** What the recipes do not use. */
    static void operations() throws Exception {
        say("create", one.create().creatingParentContainersIfNeeded().withMode(CreateMode.CONTAINER).forPath("/ops/c"));
        say("create", one.create().withTtl(60_000).withMode(CreateMode.PERSISTENT_WITH_TTL).forPath("/ops/ttl"));
        say("create", one.create().withProtection().withMode(CreateMode.EPHEMERAL_SEQUENTIAL).forPath("/ops/p-").replaceAll("_c_[^/]*-p", "_c_…-p"));
        say("transaction", one.transaction().forOperations(
                        one.transactionOp().create().forPath("/ops/t", "t".getBytes()),
                        one.transactionOp().setData().withVersion(0).forPath("/ops/t", "u".getBytes()),
                        one.transactionOp().check().withVersion(1).forPath("/ops/t"),
                        one.transactionOp().delete().forPath("/ops/t"))
                .size());
        try {
            one.transaction().forOperations(
                    one.transactionOp().create().forPath("/ops/t", new byte[0]), one.transactionOp().delete().forPath("/ops/none"));
        } catch (KeeperException e) {
            say("transaction", e.code(), e.getResults().size(), one.checkExists().forPath("/ops/t"));
        }
        say("stat", one.checkExists().forPath("/ops").getNumChildren(), one.checkExists().forPath("/ops").getCversion());
        one.sync().forPath("/ops");
        say("acl", one.getACL().forPath("/ops"));
        say("all children", one.getZookeeperClient().getZooKeeper().getAllChildrenNumber("/ops"));
        say("ephemerals", one.getZookeeperClient().getZooKeeper().getEphemerals("/ops").size());
        say("who am I", one.getZookeeperClient().getZooKeeper().whoAmI());
    }
}
