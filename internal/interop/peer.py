"""A peer that is kazoo, for package interop, whose documentation has the protocol."""

import random
import sys
import threading
import time
import uuid
from urllib.parse import quote_plus, unquote_plus

from kazoo.client import KazooClient
from kazoo.exceptions import LockTimeout
from kazoo.recipe.lock import Lock, ReadLock


class Failure(Exception):
    """A failure that has a kind of its own."""

    def __init__(self, kind, text):
        super().__init__(text)
        self.kind = kind


def as_curator(lock, label):
    """Has a kazoo lock, made with Curator's labels as extra patterns, take Curator's names for its own nodes."""
    lock.prefix = "_c_%s-%s" % (uuid.uuid4(), label)
    lock.create_path = lock.path + "/" + lock.prefix
    return lock


def curator_mutex(client, path):
    return as_curator(Lock(client, path, extra_lock_patterns=["-lock-"]), "lock-")


def curator_write(client, path):
    return as_curator(Lock(client, path, extra_lock_patterns=["__READ__", "__WRIT__"]), "__WRIT__")


def curator_read(client, path):
    return as_curator(ReadLock(client, path, extra_lock_patterns=["__WRIT__"]), "__READ__")


# By the verb that makes a lock: what is appended to its ID, how it is made, and
# whether a turn has no other beside it.
FAMILIES = {
    "mutex": [("", curator_mutex, True)],
    "readwrite": [(".read", curator_read, False), (".write", curator_write, True)],
    "kazoo": [("", Lock, True)],
    "kazoowaits": [("", lambda c, p: Lock(c, p, extra_lock_patterns=["-lock-"]), True)],
}


class Held:
    """A lock with whether a turn in it has no other beside it."""

    def __init__(self, client, lock, alone):
        self.client, self.lock, self.alone = client, lock, alone

    def acquire(self, ms):
        """Returns whether the lock was got. Negative milliseconds are for ever."""
        if ms == 0:
            return self.lock.acquire(blocking=False)
        try:
            return self.lock.acquire(timeout=None if ms < 0 else ms / 1000)
        except LockTimeout:
            return False

    def node(self):
        return self.lock.path + "/" + self.lock.node

    def token(self):
        return self.client.exists(self.node()).czxid


class Peer:
    def __init__(self):
        self.out = threading.Lock()
        self.client = None
        self.locks = {}

    def say(self, tag, kind, *words, at=None):
        line = " ".join([tag, kind, str(at or time.monotonic_ns())] + [quote_plus(str(w)) for w in words])
        with self.out:
            sys.stdout.write(line + "\n")
            sys.stdout.flush()

    def serve(self, tag, verb, args):
        try:
            words = self.run(verb, args)
        except Failure as e:
            self.say(tag, "err", e.kind, e)
        except Exception as e:  # whatever it is, the other end is told
            self.say(tag, "err", "failed", repr(e))
        else:
            self.say(tag, "ok", *words)

    def run(self, verb, args):
        if verb == "connect":
            return self.connect(args[0], int(args[1]))
        if verb == "disconnect":
            return self.disconnect()
        if verb in FAMILIES:
            ident, path = args
            for suffix, make, alone in FAMILIES[verb]:
                self.locks[ident + suffix] = Held(self.client, make(self.client, path), alone)
            return []
        if verb == "contend":
            return self.contend(*args)
        held = self.locks.get(args[0]) if args else None
        if held is None:
            raise Failure("usage", "no such verb or lock: %s %s" % (verb, args))
        if verb == "acquire":
            return self.acquire(held, int(args[1]))
        if verb == "release":
            held.lock.release()
            return []
        raise Failure("usage", "no such verb: " + verb)

    def connect(self, servers, timeout_ms):
        client = KazooClient(hosts=servers, timeout=timeout_ms / 1000)
        client.add_listener(lambda state: self.say("*", "state", state))
        client.start(timeout=20)
        self.client = client
        return [client.client_id[0], client._session_timeout]

    def disconnect(self):
        client, self.client = self.client, None
        self.locks.clear()
        if client is not None:
            client.stop()
            client.close()
        return []

    def acquire(self, held, ms):
        if not held.acquire(ms):
            raise Failure("held" if ms == 0 else "timeout", "not acquired within %d ms" % ms)
        at = time.monotonic_ns()
        return [held.node(), held.token(), at]

    def contend(self, ident, turns, seed):
        sides = [self.locks[i] for i in (ident, ident + ".read", ident + ".write") if i in self.locks]
        chance = random.Random(int(seed))
        taken = 0
        while taken < int(turns):
            held = chance.choice(sides)
            asked = time.monotonic_ns()
            if not held.acquire(chance.randrange(8) if chance.randrange(4) == 0 else -1):
                continue
            began = time.monotonic_ns()
            permits = 0 if held.alone else 1
            self.say("*", "enter", ident, permits, held.node(), held.token(), asked, at=began)
            time.sleep(chance.random() * 0.0005)
            self.say("*", "leave", ident)
            held.lock.release()
            taken += 1
            time.sleep(chance.random() * 0.0005)
        return []


def main():
    peer = Peer()
    peer.say("*", "ready", "kazoo", sys.version.split()[0])
    for line in sys.stdin:
        tag, verb, *args = [unquote_plus(w) for w in line.rstrip("\n").split(" ")]
        threading.Thread(target=peer.serve, args=(tag, verb, args), daemon=True).start()
    peer.disconnect()


main()
