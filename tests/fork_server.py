"""A process with all modules imported that forks for each command: see `forked_commands.py`.

It listens on the Unix socket at the given path, and exits at the end of its stdin; the modules that
are named behind the path are imported too.  A request is one message: the arguments of Python,
folder, environment and preparation as JSON, with the file descriptors of stdin, stdout and stderr.
The response is two lines: the command's process id and, at its end, its exit code.
"""

from __future__ import annotations

import array
import faulthandler
import io
import json
import os
import runpy
import select
import signal
import socket
import sys
from contextlib import suppress
from importlib import import_module

_MAX_REQUEST_BYTES = 1 << 20
"""Maximum size of a request in bytes."""
_PRELOADED_MODULES = (
    "aiohttp.web", "rich.console", "rich.progress", "rich.table",
    "llm_proxy.cli.export", "llm_proxy.cli.ls", "llm_proxy.cli.recover", "llm_proxy.cli.serve",
    "llm_proxy.cli.show", "llm_proxy.cli.verify", "llm_proxy.cli.doctor", "llm_proxy.cli.demo",
    "llm_proxy.cli.import_", "llm_proxy.cli.verdict", "llm_proxy.cli.chat",
    "llm_proxy.shell.running.serving",
)  # fmt: skip


def main(path: str, *modules: str) -> None:
    """Fork for each connection, until stdin ends."""
    del sys.path[0]  # the tests' folder, which commands do not import from
    for name in (*_PRELOADED_MODULES, *modules):
        import_module(name)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nothing waits for the supervisors
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(16)
        os.write(1, b"listening\n")
        while True:
            ready, _, _ = select.select([listener.fileno(), 0], [], [])  # no timeout
            if 0 in ready:
                return
            connection, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                _supervise(connection)
            connection.close()


def _supervise(connection: socket.socket) -> None:
    """Run one command in a child process, and report its exit code.  Does not return."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    size = array.array("i").itemsize
    request, ancillary, _, _ = connection.recvmsg(_MAX_REQUEST_BYTES, socket.CMSG_LEN(3 * size))
    while not request.endswith(b"\n"):
        request += connection.recv(_MAX_REQUEST_BYTES)
    descriptors = array.array("i")
    descriptors.frombytes(ancillary[0][2])
    command = json.loads(request)
    child = os.fork()
    if child == 0:
        connection.close()
        _run_command(**command, descriptors=descriptors)
    for descriptor in (*descriptors, 0, 1, 2):  # only the command uses them
        os.close(descriptor)
    connection.sendall(f"{child}\n".encode())
    _, status = os.waitpid(child, 0)
    connection.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
    os._exit(0)


def _run_command(
    arguments: list[str],
    folder: str,
    environment: dict[str, str],
    descriptors: array.array[int],
    preparation: str = "",
) -> None:
    """Run the command in this process, after the Python statements of `preparation`.

    Does not return.
    """
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.stdout, sys.stderr = _open_stream(1), _open_stream(2)
    faulthandler.enable(2)  # SIGABRT prints the stack
    code = 1
    try:
        exec(preparation, {})  # noqa: S102 # of a test
        if arguments[0] == "-m":
            sys.argv = arguments[1:]
            runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        else:
            sys.argv = arguments
            runpy.run_path(arguments[0], run_name="__main__")
        code = 0
    except SystemExit as exit_error:
        code = exit_error.code if isinstance(exit_error.code, int) else 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(code if _flush() else 120)


def _open_stream(descriptor: int) -> io.TextIOWrapper:
    """The stream that Python opens when it starts with this environment."""
    is_unbuffered = bool(os.environ.get("PYTHONUNBUFFERED"))
    encoding, _, errors = os.environ.get("PYTHONIOENCODING", "").partition(":")
    binary = open(descriptor, "wb", buffering=0 if is_unbuffered else -1)  # noqa: SIM115 # as Python
    return io.TextIOWrapper(
        binary,
        encoding or "utf-8",
        "backslashreplace" if descriptor == 2 else errors or "strict",
        line_buffering=descriptor == 2 or os.isatty(descriptor),
        write_through=is_unbuffered,
    )


def _flush() -> bool:
    """Flush what Python flushes as it exits; if that fails, it exits with 120 and a message."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError) as error:
        sys.stderr.write(f"Exception ignored in: {sys.stdout!r}\n{error!r}\n")
        return False
    finally:
        with suppress(OSError, ValueError):
            sys.stderr.flush()
    return True


if __name__ == "__main__":
    main(*sys.argv[1:])
