"""The house rules that the package's own source shows: each takes sources, and names breaches.

A breach is a line of text that begins with `file:line`.  The map of the package, which gives the
layers their order, is the docstring of `llm_proxy`.
"""

from __future__ import annotations

import ast
import gc
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from itertools import accumulate
from pathlib import Path
from typing import Final

PACKAGE: Final = "llm_proxy"

_MODEL: Final = frozenset(
    ("", "actions", "conversation", "errors", "exchange", "miss_report", "turns", "version")
)
_ENTRIES: Final = frozenset(("__main__", "cli", "pytest_plugin"))
_LAYERS: Final = ("model", "logic", "modes", "shell", "entry points")

_WORLD: Final = frozenset(
    """
    aiohttp asyncio atexit click concurrent ctypes fcntl fileinput getpass glob http importlib io
    logging mmap multiprocessing os pathlib pkgutil platform pty queue random resource rich runpy
    sched secrets select selectors shelve shutil signal smtplib socket socketserver sqlite3 ssl
    subprocess sys syslog tempfile termios threading time tty urllib.error urllib.request
    urllib.robotparser uuid uvloop webbrowser xmlrpc
    """.split()  # noqa: SIM905 # a table of words, one name a line would hide it
)
"""What reaches sockets, files, clocks, chance, processes or the environment, or finds modules."""

_PURE: Final = frozenset(
    (
        "http.HTTPMethod",
        "http.HTTPStatus",
        "io.BytesIO",
        "pathlib.PurePath",
        "pathlib.PurePosixPath",
        "uuid.UUID",
    )
)
"""Values that live among the world's modules."""

_WORLDLY_CALLS: Final = frozenset(
    ("__import__", "breakpoint", "compile", "eval", "exec", "exit", "input", "open", "print")
)
_CLOCKS: Final = frozenset(("now", "today", "utcnow"))

_MAY_CATCH_ALL: Final = frozenset(
    (
        f"{PACKAGE}.modes.simulate:SimulateMode._call_mock",
        f"{PACKAGE}.shell.recording.recorder:_write_items",
        f"{PACKAGE}.shell.recording.recorder:SpoolRecorder._file_cassette",
        f"{PACKAGE}.shell.running.simulation:_import_function",
        f"{PACKAGE}.shell.running.simulation:run_in_thread.run",
        f"{PACKAGE}.shell.server.server:ProxyServer._handle_request",
        f"{PACKAGE}.shell.upstream.signing:_lookup",
    )
)
"""The outermost frames of a task or a callback: what fails there is a fault of ours, and is
reported as one.  Where an operator's own code is loaded and run, which raises what it likes: that
is told as its failure.  And the one call into botocore that runs an operator's programs and reads
any file and service: it has no list of what it raises, and each is a way to have no
credentials."""

_ATOMIC: Final = re.compile(r"[^(]\)(?:[*+?]|\{\d*,?\d*\})\+|\(\?>.")
"""A possessive group or an atomic one, in the text of a pattern without its sets."""
_SET: Final = re.compile(r"\[\^?\]?[^\]]*\]")

_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Source:
    """One module, parsed."""

    module: str
    path: str
    text: str
    tree: ast.Module

    def breach(self, node: ast.AST | int, message: str) -> str:
        """A breach at a node or a line."""
        line = node if isinstance(node, int) else getattr(node, "lineno", 1)
        return f"{self.path}:{line}: {message}"


@dataclass(frozen=True, slots=True)
class Import:
    """One name that a module asks another for."""

    name: str
    """The whole of it: `a.b` for `from a import b`."""
    line: int
    for_types: bool
    """Under `if TYPE_CHECKING`: never carried out."""

    def module(self, known: frozenset[str]) -> str:
        """The module of ours that it comes from; empty where it is not ours."""
        parent = self.name.rpartition(".")[0]
        return next((one for one in (self.name, parent) if one in known), "")


def parsed(module: str, text: str, path: str = "") -> Source:
    """A source from its text."""
    gc.disable()  # what a collection runs within a parse has Python 3.11 count its depth wrongly
    try:
        return Source(module, path or module, text, ast.parse(text))
    finally:
        gc.enable()


def package(folder: Path) -> tuple[Source, ...]:
    """The sources of the package in this folder."""
    return tuple(
        parsed(_module(path.relative_to(folder.parent)), path.read_text("utf-8"), str(path))
        for path in sorted(folder.rglob("*.py"))
    )


def _module(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(source: Source) -> Iterator[Import]:
    """Every import of a source, wherever in it."""
    for_types = {
        inner
        for node in ast.walk(source.tree)
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")
        for statement in node.body
        for inner in ast.walk(statement)
    }
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            above = (
                "." * node.level + f"{node.module or ''}."
                if isinstance(node, ast.ImportFrom)
                else ""
            )
            for alias in node.names:
                yield Import(above + alias.name, node.lineno, node in for_types)


def _modules(sources: Sequence[Source]) -> frozenset[str]:
    return frozenset(source.module for source in sources)


def _layer(module: str) -> int:
    name = module.removeprefix(PACKAGE).lstrip(".").partition(".")[0]
    if name in _MODEL:
        return 0
    if name in _ENTRIES:
        return 4
    return {"modes": 2, "shell": 3}.get(name, 1)


def imports_upward(sources: Sequence[Source]) -> Iterator[str]:
    """Imports run downward only: entry points, shell, modes, logic, model."""
    known = _modules(sources)
    for source in sources:
        here = _layer(source.module)
        for one in imports(source):
            module = one.module(known)
            if one.name.startswith("."):
                yield source.breach(one.line, f"relative import {one.name}: write it out")
            elif module and (there := _layer(module)) > here:
                yield source.breach(
                    one.line, f"{_LAYERS[here]} import {module}, which is of the {_LAYERS[there]}"
                )


def import_circles(sources: Sequence[Source]) -> Iterator[str]:
    """No modules import each other in a circle."""
    known = _modules(sources)
    graph = {
        source.module: {one.module(known) for one in imports(source) if not one.for_types} - {""}
        for source in sources
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        circle: list[str] = error.args[1]
        first = next(source for source in sources if source.module == circle[0])
        yield first.breach(1, f"a circle of imports: {' <- '.join(circle)}")


def imports_between_dialects(sources: Sequence[Source]) -> Iterator[str]:
    """Only the list of dialects imports a dialect; a family's common part is none, and is free."""
    known = _modules(sources)
    folder = f"{PACKAGE}.dialects"
    closed = {source.module for source in sources if _holds_a_dialect(source)} | {folder}
    for source in sources:
        if source.module.startswith(f"{folder}."):
            for one in imports(source):
                if (module := one.module(known)) in closed:
                    yield source.breach(one.line, f"a file of the dialects imports {module}")


def _holds_a_dialect(source: Source) -> bool:
    return source.module.startswith(f"{PACKAGE}.dialects.") and any(
        isinstance(node, ast.ClassDef)
        and not any(ast.unparse(base).startswith("Protocol") for base in node.bases)
        and any(isinstance(part, _Function) and part.name == "claims" for part in node.body)
        for node in source.tree.body
    )


def touches_of_the_world(sources: Sequence[Source]) -> Iterator[str]:
    """Only the shell and the entry points know sockets, files, clocks, chance and environment."""
    for source in sources:
        if _layer(source.module) >= _LAYERS.index("shell"):
            continue
        for one in imports(source):
            if one.name not in _PURE and _prefixes(one.name) & _WORLD:
                yield source.breach(one.line, f"import of {one.name} outside the shell")
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Call) and (name := _worldly(node.func)):
                yield source.breach(node, f"call of {name}() outside the shell")


def _prefixes(name: str) -> set[str]:
    return set(accumulate(name.split("."), "{}.{}".format))


def _worldly(function: ast.expr) -> str:
    match function:
        case ast.Name(id=name) if name in _WORLDLY_CALLS:
            return name
        case ast.Attribute(value=value, attr=name) if name in _CLOCKS:
            whole = ast.unparse(value)
            return f"{whole}.{name}" if whole.endswith(("date", "datetime")) else ""
    return ""


def missing_docstrings(sources: Sequence[Source]) -> Iterator[str]:
    """Every module says what it is."""
    for source in sources:
        if not ast.get_docstring(source.tree):
            yield source.breach(1, "no docstring")


def catches_of_everything(sources: Sequence[Source]) -> Iterator[str]:
    """Nobody but the outermost frame swallows what it does not know."""
    for source in sources:
        for frame, node in _framed(source.tree):
            if f"{source.module}:{frame}" not in _MAY_CATCH_ALL and _swallows_all(node):
                yield source.breach(node, f"{frame or 'the module'} catches everything")


def atomic_patterns(sources: Sequence[Source]) -> Iterator[str]:
    """No pattern has groups that never give back: Python before 3.11.5 matches them wrongly."""
    for source in sources:
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
                text = node.value if isinstance(node.value, str) else node.value.decode("latin-1")
                if found := _ATOMIC.search(_SET.sub("", text)):
                    yield source.breach(node, f"{found[0]} in a pattern")


def _framed(node: ast.AST, frame: str = "") -> Iterator[tuple[str, ast.AST]]:
    """Every node below this one, with the dotted name of the function that it is in."""
    for child in ast.iter_child_nodes(node):
        inner = frame
        if isinstance(child, ast.ClassDef | _Function):
            inner = f"{frame}.{child.name}".lstrip(".")
        yield inner, child
        yield from _framed(child, inner)


def _swallows_all(node: ast.AST) -> bool:
    match node:
        case ast.ExceptHandler(type=kind, body=[*_, last]):
            again = isinstance(last, ast.Raise) and last.exc is None
            return not again and (kind is None or _is_everything(kind))
        case ast.Call(func=function, args=kinds) if ast.unparse(function).endswith("suppress"):
            return any(map(_is_everything, kinds))
    return False


def _is_everything(kind: ast.expr) -> bool:
    kinds = kind.elts if isinstance(kind, ast.Tuple) else [kind]
    return any(ast.unparse(one) in {"BaseException", "Exception"} for one in kinds)
