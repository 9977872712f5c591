"""Runs features of a framework, and prints a line for each: "ok WHAT", or "not ok WHAT -- why"."""

import asyncio
import importlib.metadata
import inspect
import os
import socket
import sys
import threading
import time
import traceback

KIND, PORT = sys.argv[1], int(sys.argv[2])
REDIS = f"redis://127.0.0.1:{PORT}"
IS_RESP = KIND == "resp"
LIMIT_S = 30
WHY_LONGEST = 200


def versions(*packages):
    for package in packages:
        print("version", package, importlib.metadata.version(package), flush=True)


def equal(found, wanted):
    if found != wanted:
        raise AssertionError(f"{found!r} instead of {wanted!r}")


def between(least, found, most):
    if not least <= found <= most:
        raise AssertionError(f"{found!r} is not from {least} to {most}")


def raises(error, call, *arguments, **named):
    try:
        found = call(*arguments, **named)
    except error:
        return
    raise AssertionError(f"{found!r} instead of {error}")


def in_threads(number, body):
    """Runs the body in threads. Returns what each has returned, or raises what one has raised."""
    found, wrong = [None] * number, []

    def run(index):
        try:
            found[index] = body(index)
        except BaseException as error:  # It is raised below.
            wrong.append(error)

    threads = [threading.Thread(target=run, args=(index,), daemon=True) for index in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if wrong:
        raise wrong[0]
    return found


def soon(condition, limit_s=5):
    """Waits until the condition holds."""
    begun = time.monotonic()
    while not condition():
        if time.monotonic() - begun > limit_s:
            raise AssertionError(f"not so after {limit_s} s: {inspect.getsource(condition).strip()}")
        time.sleep(0.01)


def feature(name, runs=True):
    """Runs the body at once, on an empty server."""
    return lambda body: tell(name, body) if runs else None


def tell(name, body):
    done = []

    def run():
        try:
            emptied()
            asyncio.run(body()) if inspect.iscoroutinefunction(body) else body()
            done.append(None)
        except BaseException as error:
            done.append(why(error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(LIMIT_S)
    wrong = done[0] if done else f"not done after {LIMIT_S} s"
    print(f"ok {name}" if wrong is None else f"not ok {name} -- {wrong}", flush=True)


def why(error):
    text = f"{type(error).__name__}: {error}"
    if isinstance(error, AssertionError):
        ours = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == sys.argv[0]]
        text = f"{error} ({ours[-1].line})" if str(error) and ours else ours[-1].line if ours else text
    return " ".join(text.split())[:WHY_LONGEST]


def emptied():
    """Makes the server forget everything."""
    with socket.create_connection(("127.0.0.1", PORT)) as connection:
        connection.sendall(b"FLUSHALL\r\n" if IS_RESP else b"flush_all\r\n")
        answer = connection.recv(100)
        assert answer in (b"+OK\r\n", b"OK\r\n"), answer


def end():
    """Ends the program with its threads."""
    sys.stdout.flush()
    os._exit(0)
