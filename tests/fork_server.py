"""A process that has everything imported, and forks for each command: see `forking`.

It listens on the socket whose path it is given, and ends with its stdin.  A request is one
message: the arguments, the folder and the environment as JSON, with stdin, stdout and stderr.  The
answer is two lines: the process id of the command, and in the end how it ended.
"""

from __future__ import annotations

import array
import json
import os
import runpy
import select
import signal
import socket
import sys
from importlib import import_module

_LARGEST = 1 << 20
"""Bytes of a request."""
_HEAVY = (
    "aiohttp.web", "rich.console", "rich.progress", "rich.table",
    "llm_proxy.cli.export", "llm_proxy.cli.ls", "llm_proxy.cli.recover", "llm_proxy.cli.serve",
    "llm_proxy.cli.show", "llm_proxy.cli.verify", "llm_proxy.cli.doctor", "llm_proxy.cli.demo",
    "llm_proxy.shell.running.logs", "llm_proxy.shell.running.serving",
)  # fmt: skip


def main(path: str) -> None:
    """Fork for each connection, until stdin ends."""
    del sys.path[0]  # the folder of the tests, which commands do not see
    for name in _HEAVY:
        import_module(name)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the keepers
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(16)
        os.write(1, b"listening\n")
        while True:
            ready, _, _ = select.select([listener.fileno(), 0], [], [])  # as long as the tests run
            if 0 in ready:
                return
            connection, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                _keep(connection)
            connection.close()


def _keep(connection: socket.socket) -> None:
    """Run one command in a child, and tell how it ends.  Does not return."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    size = array.array("i").itemsize
    request, ancillary, _, _ = connection.recvmsg(_LARGEST, socket.CMSG_LEN(3 * size))
    while not request.endswith(b"\n"):
        request += connection.recv(_LARGEST)
    descriptors = array.array("i")
    descriptors.frombytes(ancillary[0][2])
    asked = json.loads(request)
    child = os.fork()
    if child == 0:
        connection.close()
        _become(asked["arguments"], asked["folder"], asked["environment"], descriptors)
    for descriptor in (*descriptors, 0, 1, 2):  # they belong to the command alone
        os.close(descriptor)
    connection.sendall(f"{child}\n".encode())
    _, status = os.waitpid(child, 0)
    connection.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
    os._exit(0)


def _become(
    arguments: list[str], folder: str, environment: dict[str, str], descriptors: array.array[int]
) -> None:
    """Be the command.  Does not return."""
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["llm-proxy", *arguments]
    code = 1
    try:
        runpy.run_module("llm_proxy", run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        _flush()
        os._exit(code)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            continue  # nobody reads it any more


if __name__ == "__main__":
    main(sys.argv[1])
