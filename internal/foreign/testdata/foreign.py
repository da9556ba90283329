"""kazoo's recipes, each used by two clients of one server. What it prints must not depend on the server."""

import queue
import sys
import threading

from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError, LockTimeout, NodeExistsError, NoNodeError, NotEmptyError
from kazoo.protocol.states import EventType
from kazoo.security import make_digest_acl


def say(recipe, *words):
    print(recipe + ":", *words, flush=True)


def clients(connect):
    both = [KazooClient(hosts=connect, timeout=20), KazooClient(hosts=connect, timeout=20)]
    for client in both:
        client.start(timeout=10)
    return both


def lock(one, two):
    a, b = one.Lock("/lock", "a"), two.Lock("/lock", "b")
    say("lock", "a", a.acquire(timeout=10), "contenders", b.contenders())
    try:
        say("lock", "b", b.acquire(timeout=0.05))
    except LockTimeout:
        say("lock", "b waits in vain")
    got = queue.Queue()
    waiting = threading.Thread(target=lambda: got.put(b.acquire(timeout=10)))
    waiting.start()
    while len(a.contenders()) < 2:
        pass
    a.release()
    say("lock", "b", got.get(timeout=10))
    waiting.join()
    b.release()
    say("lock", "left", one.get_children("/lock"))
    first, second = one.ReadLock("/rw", "r"), two.WriteLock("/rw", "w")
    say("read lock", first.acquire(timeout=10))
    try:
        say("write lock", second.acquire(timeout=0.05))
    except LockTimeout:
        say("write lock", "waits in vain")
    first.release()
    say("write lock", second.acquire(timeout=10))
    second.release()
    semaphore = one.Semaphore("/semaphore", "s", max_leases=1)
    say("semaphore", semaphore.acquire(timeout=10), semaphore.lease_holders())
    semaphore.release()


def election(one, two):
    a, b = one.Election("/election", "a"), two.Election("/election", "b")
    led, leave = queue.Queue(), threading.Event()

    def lead(name, hold):
        led.put(name)
        if hold:
            leave.wait(10)

    first = threading.Thread(target=a.run, args=(lead, "a", True))
    first.start()
    say("election", led.get(timeout=10))
    second = threading.Thread(target=b.run, args=(lead, "b", False))
    second.start()
    while len(a.contenders()) < 2:
        pass
    say("election", "contenders", a.contenders())
    leave.set()
    say("election", led.get(timeout=10))
    first.join()
    second.join()


def counter(one, two):
    def add(client):
        count = client.Counter("/counter", default=100)
        for _ in range(20):
            count += 1

    adders = [threading.Thread(target=add, args=(client,)) for client in (one, two)]
    for adder in adders:
        adder.start()
    for adder in adders:
        adder.join()
    say("counter", one.Counter("/counter", default=100).value)


def party(one, two):
    a, b = one.Party("/party", "a"), two.Party("/party", "b")
    a.join()
    b.join()
    say("party", sorted(a), len(b))
    b.leave()
    say("party", sorted(a))
    a.leave()
    shallow = one.ShallowParty("/shallow", "x")
    shallow.join()
    say("shallow party", list(shallow))


def watchers(one, two):
    data, children = queue.Queue(), queue.Queue()
    one.create("/watch", b"0")

    @two.DataWatch("/watch")
    def changed(value, stat, event):
        data.put((value, stat and stat.version, event and event.type))

    @two.ChildrenWatch("/watch", send_event=True)
    def listed(names, event):
        children.put((sorted(names), event and event.type))

    def told(q):
        return q.get(timeout=10)

    say("data watch", told(data))
    say("children watch", told(children))
    one.set("/watch", b"1")
    say("data watch", told(data))
    one.create("/watch/x", ephemeral=True)
    say("children watch", told(children))
    one.delete("/watch/x")
    say("children watch", told(children))
    one.delete("/watch")
    say("data watch", told(data))
    single = queue.Queue()
    say("exists", one.exists("/later", watch=lambda e: single.put((e.type, e.path))))
    two.create("/later")
    say("exists", told(single))


def transactions(one, two):
    t = one.transaction()
    t.create("/tx", b"x")
    t.create("/tx/a", b"y", ephemeral=True)
    t.check("/tx", 0)
    t.set_data("/tx", b"z", 0)
    t.delete("/tx/a")
    say("transaction", [r if isinstance(r, (str, bool)) else r.version for r in t.commit()])
    t = one.transaction()
    t.create("/tx/b")
    t.delete("/none")
    t.create("/tx/c")
    say("transaction", [type(r).__name__ for r in t.commit()], two.get_children("/tx"))


def operations(one, two):
    say("create", one.create("/ops/deep/er", b"d", makepath=True))
    say("create", one.create("/ops/s-", sequence=True), one.create("/ops/e-", ephemeral=True, sequence=True))
    data, stat = two.get("/ops/deep/er")
    say("get", data, stat.version, stat.dataLength, stat.numChildren, stat.ephemeralOwner)
    for what, error in (
        (lambda: one.create("/ops"), NodeExistsError),
        (lambda: one.delete("/ops"), NotEmptyError),
        (lambda: one.set("/ops", b"", version=5), BadVersionError),
        (lambda: one.get("/none"), NoNodeError),
    ):
        try:
            what()
        except error as e:
            say("error", type(e).__name__)
    one.add_auth("digest", "user:secret")
    one.create("/mine", b"m", acl=[make_digest_acl("user", "secret", all=True)])
    acls, stat = one.get_acls("/mine")
    say("acl", acls)
    try:
        two.get("/mine")
    except Exception as e:
        say("acl", type(e).__name__)
    say("sync", one.sync("/ops"))
    one.delete("/ops", recursive=True)
    say("exists", two.exists("/ops"))


def main():
    one, two = clients(sys.argv[1])
    assert EventType.CHANGED
    for recipe in (lock, election, counter, party, watchers, transactions, operations):
        recipe(one, two)
    for client in (one, two):
        client.stop()
        client.close()


main()
