import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.URLDecoder;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.imps.ProtectedUtils;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreMutex;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.recipes.locks.Revoker;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * A peer that is Apache Curator, for package interop, whose documentation has
 * the protocol. It is one file, so that the JDK can run it as it is.
 */
public class Peer {
    static final ThreadFactory DAEMONS = r -> {
        Thread t = new Thread(r);
        t.setDaemon(true);
        return t;
    };
    static final PrintStream out = System.out;
    static final ExecutorService pool = Executors.newCachedThreadPool(DAEMONS);
    static final Map<String, Lock> locks = new ConcurrentHashMap<>();
    static volatile CuratorFramework client;

    static ExecutorService oneThread() {
        return Executors.newSingleThreadExecutor(DAEMONS);
    }

    /** What a recipe is to the verbs acquire, release, participants, revocable and contend. */
    abstract static class Lock {
        /** Curator's locks belong to threads. Whatever acquires or releases runs on this one. */
        final ExecutorService thread;

        Lock(ExecutorService thread) {
            this.thread = thread;
        }

        /** Returns whether the lock was got. Negative milliseconds are for ever. */
        abstract boolean acquire(long ms, int permits) throws Exception;

        abstract void release() throws Exception;

        /** The paths of the nodes that this thread holds the lock with. */
        abstract List<String> nodes() throws Exception;

        abstract Collection<String> participants() throws Exception;

        /** Whether a turn has no other beside it. */
        boolean alone() {
            return true;
        }

        void revocable(Runnable heard) {
            throw new UnsupportedOperationException("not revocable");
        }
    }

    interface Family {
        /** Makes what goes by an ID, from the words that follow it. */
        void make(String id, String path, List<String> rest) throws Exception;
    }

    /** The families of locks by the verb that makes one. */
    static final Map<String, Family> FAMILIES = Map.of(
            "mutex", (id, path, rest) -> {
                var m = new Mutex(client, path);
                locks.put(id, new MutexLock(oneThread(), m, m::node, true));
            },
            "readwrite", (id, path, rest) -> {
                var thread = oneThread();
                var w = new WriteSide(client, path);
                var r = new ReadSide(client, path, w);
                locks.put(id + ".write", new MutexLock(thread, w, w::node, true));
                locks.put(id + ".read", new MutexLock(thread, r, r::node, false));
            },
            "semaphoremutex", (id, path, rest) -> locks.put(id, new SemaphoreMutexLock(path)),
            "semaphore", (id, path, rest) -> locks.put(id, new SemaphoreLock(path, rest.get(0))));

    /** Opens what Curator keeps to subclasses, as the next two do. */
    static class Mutex extends InterProcessMutex {
        Mutex(CuratorFramework client, String path) {
            super(client, path);
        }

        String node() {
            return getLockPath();
        }
    }

    static class WriteSide extends InterProcessReadWriteLock.WriteLock {
        WriteSide(CuratorFramework client, String path) {
            super(client, path, null);
        }

        String node() {
            return getLockPath();
        }
    }

    static class ReadSide extends InterProcessReadWriteLock.ReadLock {
        ReadSide(CuratorFramework client, String path, WriteSide writeSide) {
            super(client, path, null, writeSide);
        }

        String node() {
            return getLockPath();
        }
    }

    /** A mutex, or a side of a read-write lock. */
    static class MutexLock extends Lock {
        private final InterProcessMutex mutex;
        private final Supplier<String> node;
        private final boolean alone;

        MutexLock(ExecutorService thread, InterProcessMutex mutex, Supplier<String> node, boolean alone) {
            super(thread);
            this.mutex = mutex;
            this.node = node;
            this.alone = alone;
        }

        @Override
        boolean acquire(long ms, int permits) throws Exception {
            if (ms < 0) {
                mutex.acquire();
                return true;
            }
            return mutex.acquire(ms, TimeUnit.MILLISECONDS);
        }

        @Override
        void release() throws Exception {
            mutex.release();
        }

        @Override
        List<String> nodes() {
            return List.of(node.get());
        }

        @Override
        Collection<String> participants() throws Exception {
            return mutex.getParticipantNodes();
        }

        @Override
        boolean alone() {
            return alone;
        }

        @Override
        void revocable(Runnable heard) {
            mutex.makeRevocable(m -> heard.run());
        }
    }

    static class SemaphoreMutexLock extends Lock {
        private final InterProcessSemaphoreMutex mutex;
        private final String path;

        SemaphoreMutexLock(String path) {
            super(oneThread());
            this.path = path;
            mutex = new InterProcessSemaphoreMutex(client, path);
        }

        @Override
        boolean acquire(long ms, int permits) throws Exception {
            if (ms < 0) {
                mutex.acquire();
                return true;
            }
            return mutex.acquire(ms, TimeUnit.MILLISECONDS);
        }

        @Override
        void release() throws Exception {
            mutex.release();
        }

        /** There is no other way to the node: not even subclasses are told. */
        @Override
        List<String> nodes() throws Exception {
            var lease = InterProcessSemaphoreMutex.class.getDeclaredField("lease");
            lease.setAccessible(true);
            return List.of(leasePath(path, ((Lease) lease.get(mutex)).getNodeName()));
        }

        @Override
        Collection<String> participants() {
            throw new UnsupportedOperationException("it does not say");
        }
    }

    static class SemaphoreLock extends Lock {
        private final InterProcessSemaphoreV2 semaphore;
        private final String path;
        private Collection<Lease> held;

        SemaphoreLock(String path, String limit) throws Exception {
            super(oneThread());
            this.path = path;
            if (!limit.startsWith("/")) {
                semaphore = new InterProcessSemaphoreV2(client, path, Integer.parseInt(limit));
                return;
            }
            SharedCount count = new SharedCount(client, limit, 0);
            count.start(); // before the semaphore, which only hears of what changes after
            semaphore = new InterProcessSemaphoreV2(client, path, count);
        }

        @Override
        boolean acquire(long ms, int permits) throws Exception {
            held = ms < 0
                    ? semaphore.acquire(permits)
                    : semaphore.acquire(permits, ms, TimeUnit.MILLISECONDS);
            return held != null;
        }

        @Override
        void release() {
            semaphore.returnAll(held);
        }

        @Override
        List<String> nodes() {
            return held.stream().map(l -> leasePath(path, l.getNodeName())).collect(Collectors.toList());
        }

        @Override
        Collection<String> participants() throws Exception {
            return semaphore.getParticipantNodes().stream()
                    .map(n -> leasePath(path, n)).collect(Collectors.toList());
        }

        @Override
        boolean alone() {
            return false;
        }
    }

    static String leasePath(String path, String name) {
        return path + "/leases/" + name;
    }

    /** A failure that has a kind of its own. */
    static class Failure extends Exception {
        final String kind;

        Failure(String kind, String text) {
            super(text);
            this.kind = kind;
        }
    }

    public static void main(String[] args) throws Exception {
        System.setOut(System.err); // the protocol's alone
        say("*", "ready", System.nanoTime(), List.of("java", System.getProperty("java.version")));
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = in.readLine()) != null; ) {
            String[] words = line.split(" ", -1);
            for (int i = 0; i < words.length; i++) {
                words[i] = URLDecoder.decode(words[i], StandardCharsets.UTF_8);
            }
            serve(words);
        }
        disconnect();
        System.exit(0);
    }

    /** Says one line: a reply or, with * for a tag, an event. */
    static void say(String tag, String kind, long at, List<String> words) {
        StringBuilder line = new StringBuilder(tag).append(' ').append(kind).append(' ').append(at);
        for (String w : words) {
            line.append(' ').append(URLEncoder.encode(w, StandardCharsets.UTF_8));
        }
        synchronized (out) {
            out.println(line);
            out.flush();
        }
    }

    /** Has one request carried out, on the thread that it belongs to. */
    static void serve(String[] words) {
        String tag = words[0];
        String verb = words[1];
        Lock lock = words.length > 2 ? lock(words[2]) : null;
        ExecutorService thread = pool;
        if (lock != null && (verb.equals("acquire") || verb.equals("release") || verb.equals("contend"))) {
            thread = lock.thread;
        }
        thread.execute(() -> {
            try {
                List<String> reply = run(verb, lock, words);
                say(tag, "ok", System.nanoTime(), reply);
            } catch (Failure e) {
                say(tag, "err", System.nanoTime(), List.of(e.kind, e.getMessage()));
            } catch (Throwable e) {
                say(tag, "err", System.nanoTime(), List.of("failed", e.toString()));
            }
        });
    }

    /** The lock of an ID, or a side of a read-write lock that has it. */
    static Lock lock(String id) {
        return locks.getOrDefault(id, locks.get(id + ".read"));
    }

    static List<String> run(String verb, Lock lock, String[] words) throws Exception {
        if (FAMILIES.containsKey(verb)) {
            FAMILIES.get(verb).make(words[2], words[3], List.of(words).subList(4, words.length));
            return List.of();
        }
        switch (verb) {
            case "connect":
                return connect(words[2], Integer.parseInt(words[3]));
            case "disconnect":
                disconnect();
                return List.of();
            case "revoke":
                Revoker.attemptRevoke(client, words[2]);
                return List.of();
            case "name":
                return name(words[2]);
            default:
        }
        if (lock == null) {
            throw new Failure("usage", "no such verb or lock: " + String.join(" ", words));
        }
        switch (verb) {
            case "acquire":
                return acquire(lock, Long.parseLong(words[3]), words.length > 4 ? Integer.parseInt(words[4]) : 1);
            case "release":
                lock.release();
                return List.of();
            case "participants":
                return new ArrayList<>(lock.participants());
            case "revocable":
                lock.revocable(() -> say("*", "revoke", System.nanoTime(), List.of(words[2])));
                return List.of();
            case "contend":
                contend(words[2], lock, words);
                return List.of();
            default:
                throw new Failure("usage", "no such verb: " + verb);
        }
    }

    static List<String> connect(String servers, int timeoutMs) throws Exception {
        CuratorFramework c =
                CuratorFrameworkFactory.newClient(servers, timeoutMs, 10_000, new ExponentialBackoffRetry(50, 5));
        c.getConnectionStateListenable().addListener((same, state) ->
                say("*", "state", System.nanoTime(), List.of(state.name())));
        c.start();
        if (!c.blockUntilConnected(20, TimeUnit.SECONDS)) {
            c.close();
            throw new Failure("failed", "no connection to " + servers);
        }
        client = c;
        var zk = c.getZookeeperClient().getZooKeeper();
        return List.of(Long.toString(zk.getSessionId()), Integer.toString(zk.getSessionTimeout()));
    }

    static void disconnect() {
        for (Lock lock : locks.values()) {
            lock.thread.shutdownNow();
        }
        locks.clear();
        if (client != null) {
            client.close();
            client = null;
        }
    }

    /** What Curator makes of a node's name. */
    static List<String> name(String name) {
        return List.of(
                Boolean.toString(ProtectedUtils.isProtectedZNode(name)),
                ProtectedUtils.normalize(name),
                ProtectedUtils.extractProtectedId(name).orElse(""));
    }

    static List<String> acquire(Lock lock, long ms, int permits) throws Exception {
        if (!lock.acquire(ms, permits)) {
            throw new Failure(ms == 0 ? "held" : "timeout", "not acquired within " + ms + " ms");
        }
        // The time of the grant is taken here, and not after the next request.
        String at = Long.toString(System.nanoTime());
        List<String> reply = new ArrayList<>();
        for (String node : lock.nodes()) {
            reply.add(node);
            reply.add(Long.toString(token(node)));
        }
        reply.add(2, at);
        return reply;
    }

    static long token(String node) throws Exception {
        return client.checkExists().forPath(node).getCzxid();
    }

    /** Takes turns in a lock, or in either side of a read-write lock. */
    static void contend(String id, Lock lock, String[] words) throws Exception {
        Lock write = locks.get(id + ".write");
        List<Lock> sides = write == null ? List.of(lock) : List.of(lock, write);
        String how = words.length > 5 ? words[5] : "";
        new Turns(id, sides, new Random(Long.parseLong(words[4])), how).take(Integer.parseInt(words[3]));
    }

    /** The verb contend, as one user does it. */
    static class Turns {
        private final String id;
        private final List<Lock> sides;
        private final Random random;
        private final int most; // permits
        private final boolean downgrades;

        Turns(String id, List<Lock> sides, Random random, String how) {
            this.id = id;
            this.sides = sides;
            this.random = random;
            downgrades = how.equals("downgrade");
            most = how.isEmpty() || downgrades ? 1 : Integer.parseInt(how);
        }

        void take(int n) throws Exception {
            for (int taken = 0; taken < n; ) {
                Lock lock = sides.get(random.nextInt(sides.size()));
                int permits = 1 + random.nextInt(most);
                long ms = random.nextInt(4) == 0 ? random.nextInt(8) : -1;
                long asked = System.nanoTime();
                if (!lock.acquire(ms, permits)) {
                    continue;
                }
                turn(lock, permits, asked);
                taken++;
                pause();
            }
        }

        private void turn(Lock lock, int permits, long asked) throws Exception {
            enter(lock, permits, asked);
            try {
                stay();
                if (downgrades && lock.alone() && random.nextInt(3) == 0) {
                    lock = downgrade(lock);
                }
                say("*", "leave", System.nanoTime(), List.of(id));
            } finally {
                lock.release();
            }
        }

        private Lock downgrade(Lock write) throws Exception {
            Lock read = sides.get(0);
            long asked = System.nanoTime();
            read.acquire(-1, 1);
            say("*", "leave", System.nanoTime(), List.of(id));
            enter(read, 1, asked);
            write.release();
            stay();
            return read;
        }

        private void enter(Lock lock, int permits, long asked) throws Exception {
            long began = System.nanoTime();
            String node = lock.nodes().get(0);
            say("*", "enter", began, List.of(id, Integer.toString(lock.alone() ? 0 : permits), node,
                    Long.toString(token(node)), Long.toString(asked)));
        }

        private void pause() {
            LockSupport.parkNanos(random.nextInt(500_000));
        }

        /** Is inside, with permits for so long that they run out. */
        private void stay() {
            LockSupport.parkNanos(random.nextInt(most > 1 ? 20_000_000 : 500_000));
        }
    }
}
