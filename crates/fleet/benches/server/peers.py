"""LangGraph's savers, measured: called by the benchmark, which says what to do and reads one line of JSON.

    peers.py     write  sqlite FILE|postgres URL  --writers N --kilobytes K --seconds S [--processes P] [--writes]
    peers.py     serve  sqlite FILE|postgres URL  --kilobytes K [--writes]
    peers.py     list   sqlite FILE|postgres URL  --kilobytes K
    peers.py     store  sqlite FILE|postgres URL  --kilobytes K --checkpoints N

A state is 100 channels of equal size. Each checkpoint changes one of them, that is 1 %, and is one `put`. LangGraph
itself writes twice in a step: what a task returned (`put_writes`), then the checkpoint (`put`); `--writes` measures that.
`serve` puts the saver behind HTTP: `POST /put` with the name of a thread and a value is one `put`, or with `--writes` one
such step, answered when it is durable. Savers are used as their documentation says: SqliteSaver is one
connection with a lock of its own, shared by the threads (a connection for each thread is tried as well); PostgresSaver is
one connection for each thread (`autocommit`, `dict_row`), because one saver lets in one thread at a time.
"""

import argparse
import json
import multiprocessing
import os
import sqlite3
import sys
import threading
import time

from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.base.id import uuid6

CHANNELS = 100


class State:
    """One thread's state, as a graph would hold it."""

    def __init__(self, name, kilobytes):
        self.size = kilobytes * 1024 // CHANNELS
        self.config = {"configurable": {"thread_id": name, "checkpoint_ns": ""}}
        self.checkpoint = empty_checkpoint()
        self.turn = 0
        self.checkpoint["channel_values"] = {f"channel-{n}": self.text() for n in range(CHANNELS)}
        self.checkpoint["channel_versions"] = {f"channel-{n}": 1 for n in range(CHANNELS)}

    def text(self):
        # Not all the same: what compresses well would be no fair state.
        # A list, as of messages: PostgresSaver writes plain texts anew with every checkpoint, lists only when changed.
        return [os.urandom(self.size // 2 + 1).hex()[: self.size]]

    def put(self, saver, writes=False, text=None):
        self.turn += 1
        name = f"channel-{self.turn % CHANNELS}"
        everything = self.turn == 1
        value = self.text() if text is None else [text]
        if writes and not everything:
            saver.put_writes(self.config, [(name, value)], f"task-{self.turn}")
        self.checkpoint["channel_values"][name] = value
        self.checkpoint["channel_versions"][name] = self.turn + 1
        self.checkpoint["id"] = str(uuid6(clock_seq=-2))
        self.checkpoint["ts"] = time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime())
        new = dict(self.checkpoint["channel_versions"]) if everything else {name: self.turn + 1}
        metadata = {"source": "loop", "step": self.turn, "parents": {}}
        self.config = saver.put(self.config, self.checkpoint, metadata, new)


def sqlite_saver(path):
    from langgraph.checkpoint.sqlite import SqliteSaver

    saver = SqliteSaver(sqlite3.connect(path, check_same_thread=False, timeout=60))
    saver.setup()
    return saver


def postgres_saver(url):
    from langgraph.checkpoint.postgres import PostgresSaver
    from psycopg import Connection
    from psycopg.rows import dict_row

    return PostgresSaver(Connection.connect(url, autocommit=True, prepare_threshold=0, row_factory=dict_row))


def opener(args):
    if args.saver == "postgres":
        return lambda: postgres_saver(args.place)
    if args.own_connections:
        return lambda: sqlite_saver(args.place)
    shared = sqlite_saver(args.place)
    return lambda: shared


def work(args, process, queue):
    """The threads of one process, all at once, for so many seconds."""
    open_saver = opener(args)
    count = args.writers // args.processes
    barrier, times = threading.Barrier(count), [[] for _ in range(count)]

    def attempt(number):
        try:
            write(number)
        except Exception as error:  # one that fails would be waited for for ever
            barrier.abort()
            if not isinstance(error, threading.BrokenBarrierError):
                print(f"writer {number}: {error}", file=sys.stderr)

    def write(number):
        saver, state = open_saver(), State(f"thread-{process}-{number}", args.kilobytes)
        # The first one holds the whole state and warms up.
        state.put(saver)
        barrier.wait()
        end = time.perf_counter() + args.seconds
        while True:
            began = time.perf_counter()
            if began > end:
                return
            state.put(saver, args.writes)
            times[number].append(time.perf_counter() - began)

    threads = [threading.Thread(target=attempt, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    queue.put([span for spans in times for span in spans])


def write(args):
    queue = multiprocessing.Queue()
    workers = [multiprocessing.Process(target=work, args=(args, n, queue)) for n in range(args.processes)]
    for worker in workers:
        worker.start()
    spans = sorted(span for _ in workers for span in queue.get())
    for worker in workers:
        worker.join()
    if not spans:
        return {"per_second": 0, "p50_ms": 0, "p95_ms": 0}
    at = lambda percent: spans[min(len(spans) - 1, len(spans) * percent // 100)] * 1000
    return {"per_second": len(spans) / args.seconds, "p50_ms": at(50), "p95_ms": at(95)}


def serve(args):
    """The saver behind HTTP, until the process is ended; says its port in one line of JSON."""
    import asyncio
    import queue
    import socket
    from concurrent.futures import ThreadPoolExecutor

    import uvicorn

    threads = 8
    open_saver = opener(args)
    savers = queue.SimpleQueue()
    for _ in range(threads):
        savers.put(open_saver())
    states, pool = {}, ThreadPoolExecutor(threads)

    def put(asked):
        state = states.get(asked["thread"]) or states.setdefault(asked["thread"], State(asked["thread"], args.kilobytes))
        saver = savers.get()
        try:
            state.put(saver, args.writes, asked["value"])
        finally:
            savers.put(saver)
        return json.dumps(state.config).encode()

    async def app(scope, receive, send):
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        answer = await asyncio.get_running_loop().run_in_executor(pool, put, json.loads(body))
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(answer)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": answer})

    listener = socket.create_server(("127.0.0.1", 0))
    print(json.dumps({"url": f"http://127.0.0.1:{listener.getsockname()[1]}"}), flush=True)
    uvicorn.run(app, fd=listener.fileno(), loop="uvloop", http="httptools", lifespan="off", log_level="critical", access_log=False)


def listing(args):
    saver, state = opener(args)(), State("listed", args.kilobytes)
    for _ in range(120):
        state.put(saver)
    config = {"configurable": {"thread_id": "listed"}}
    spans = []
    for _ in range(15):
        began = time.perf_counter()
        assert len(list(saver.list(config, limit=100))) == 100
        spans.append((time.perf_counter() - began) * 1000)
    spans.sort()
    return {"p50_ms": spans[len(spans) // 2]}


def size(args):
    if args.saver == "sqlite":
        connection = sqlite3.connect(args.place)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.close()
        return os.path.getsize(args.place)
    import psycopg

    with psycopg.connect(args.place, autocommit=True) as connection:
        tables = ["checkpoints", "checkpoint_blobs", "checkpoint_writes"]
        return sum(connection.execute("SELECT pg_total_relation_size(%s::regclass)", [t]).fetchone()[0] for t in tables)


def store(args):
    saver, state = opener(args)(), State("stored", args.kilobytes)
    state.put(saver)
    before = size(args)
    for _ in range(args.checkpoints):
        state.put(saver)
    return {"bytes": (size(args) - before) / args.checkpoints}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["write", "serve", "list", "store"])
    parser.add_argument("saver", choices=["sqlite", "postgres"])
    parser.add_argument("place")
    parser.add_argument("--writers", type=int, default=1)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--own-connections", action="store_true")
    parser.add_argument("--writes", action="store_true")
    parser.add_argument("--kilobytes", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--checkpoints", type=int, default=200)
    args = parser.parse_args()
    if args.saver == "postgres":
        postgres_saver(args.place).setup()
    if args.what == "serve":
        return serve(args)
    print(json.dumps({"write": write, "list": listing, "store": store}[args.what](args)))


if __name__ == "__main__":
    main()
