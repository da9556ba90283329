import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.URLDecoder;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.Path;
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
import java.util.function.BiFunction;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.imps.ProtectedUtils;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.Revoker;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * A peer that is Apache Curator, for package interop, whose documentation has
 * the protocol. It is one file, so that the JDK can run it as it is.
 */
public class Peer {
    /** What a recipe is to the verbs acquire, release, participants, revocable and contend. */
    abstract static class Lock {
        /** Curator's locks belong to threads. Whatever acquires or releases runs on this one. */
        final ExecutorService thread = Executors.newSingleThreadExecutor(DAEMONS);

        /** Returns whether the lock was got. Negative milliseconds are for ever. */
        abstract boolean acquire(long ms) throws Exception;

        abstract void release() throws Exception;

        /** The path of the node that this thread holds the lock with. */
        abstract String node() throws Exception;

        abstract Collection<String> participants() throws Exception;

        void revocable(Runnable heard) {
            throw new UnsupportedOperationException("not revocable");
        }
    }

    /** The families of locks by the verb that makes one, from a client and a path. */
    static final Map<String, BiFunction<CuratorFramework, String, Lock>> FAMILIES =
            Map.of("mutex", (client, path) -> new MutexLock(new Mutex(client, path)));

    /** Opens what Curator keeps to subclasses. */
    static class Mutex extends InterProcessMutex {
        Mutex(CuratorFramework client, String path) {
            super(client, path);
        }

        String node() {
            return getLockPath();
        }
    }

    static class MutexLock extends Lock {
        private final Mutex mutex;

        MutexLock(Mutex mutex) {
            this.mutex = mutex;
        }

        @Override
        boolean acquire(long ms) throws Exception {
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
        String node() {
            return mutex.node();
        }

        @Override
        Collection<String> participants() throws Exception {
            return mutex.getParticipantNodes();
        }

        @Override
        void revocable(Runnable heard) {
            mutex.makeRevocable(m -> heard.run());
        }
    }

    /** A failure that has a kind of its own. */
    static class Failure extends Exception {
        final String kind;

        Failure(String kind, String text) {
            super(text);
            this.kind = kind;
        }
    }

    interface Work {
        List<String> run() throws Exception;
    }

    static final ThreadFactory DAEMONS = r -> {
        Thread t = new Thread(r);
        t.setDaemon(true);
        return t;
    };
    static final PrintStream out = System.out;
    static final ExecutorService pool = Executors.newCachedThreadPool(DAEMONS);
    static final Map<String, Lock> locks = new ConcurrentHashMap<>();
    static volatile CuratorFramework client;

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
        Lock lock = words.length > 2 ? locks.get(words[2]) : null;
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

    static List<String> run(String verb, Lock lock, String[] words) throws Exception {
        if (FAMILIES.containsKey(verb)) {
            locks.put(words[2], FAMILIES.get(verb).apply(client, words[3]));
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
                return acquire(lock, Long.parseLong(words[3]));
            case "release":
                lock.release();
                return List.of();
            case "participants":
                return new ArrayList<>(lock.participants());
            case "revocable":
                lock.revocable(() -> say("*", "revoke", System.nanoTime(), List.of(words[2])));
                return List.of();
            case "contend":
                return contend(lock, Integer.parseInt(words[3]), Path.of(words[4]), Long.parseLong(words[5]));
            default:
                throw new Failure("usage", "no such verb: " + verb);
        }
    }

    static List<String> connect(String servers, int timeoutMs) throws Exception {
        CuratorFramework c =
                CuratorFrameworkFactory.newClient(servers, timeoutMs, 10_000, new ExponentialBackoffRetry(50, 5));
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

    static List<String> acquire(Lock lock, long ms) throws Exception {
        if (!lock.acquire(ms)) {
            throw new Failure(ms == 0 ? "held" : "timeout", "not acquired within " + ms + " ms");
        }
        // The time of the grant is taken here, and not after the next request.
        String at = Long.toString(System.nanoTime());
        String node = lock.node();
        return List.of(node, Long.toString(token(node)), at);
    }

    static long token(String node) throws Exception {
        return client.checkExists().forPath(node).getCzxid();
    }

    /** Takes a number of turns, of which none may overlap anybody's, and returns them. */
    static List<String> contend(Lock lock, int turns, Path inside, long seed) throws Exception {
        Random random = new Random(seed);
        List<String> taken = new ArrayList<>();
        while (taken.size() < turns) {
            long ms = random.nextInt(4) == 0 ? random.nextInt(8) : -1;
            if (!lock.acquire(ms)) {
                continue;
            }
            try {
                taken.add(turn(lock, inside, random));
            } finally {
                lock.release();
            }
            LockSupport.parkNanos(random.nextInt(500_000));
        }
        return taken;
    }

    /** The part of a turn that nobody else may be in. */
    static String turn(Lock lock, Path inside, Random random) throws Exception {
        long began = System.nanoTime();
        try {
            Files.createFile(inside);
        } catch (FileAlreadyExistsException e) {
            throw new Failure("overlap", lock.node() + " was granted while another is inside");
        }
        long token = token(lock.node());
        LockSupport.parkNanos(random.nextInt(500_000));
        Files.delete(inside);
        return token + ":" + began + ":" + System.nanoTime();
    }
}
