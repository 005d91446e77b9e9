"""The architecture rules of the package's source: each takes sources, and yields violations.

A violation is a line of text that begins with `file:line`.  The map of the package, which defines
the order of the layers, is the docstring of `llm_proxy`.
"""

from __future__ import annotations

import ast
import gc
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from graphlib import CycleError, TopologicalSorter
from itertools import accumulate
from pathlib import Path
from typing import Final

from llm_proxy.providers import PROVIDERS

PACKAGE: Final = "llm_proxy"
RUNTIME_PACKAGE: Final = "llm_chat"
"""The conversation runtime, which stands on `llm_proxy`."""
TESTS_PACKAGE: Final = "llm_pytest"
"""Tests that a model carries out, which stand on the conversation runtime."""
_MAY_IMPORT: Final = {
    RUNTIME_PACKAGE: (RUNTIME_PACKAGE, TESTS_PACKAGE, f"{PACKAGE}.cli"),
    TESTS_PACKAGE: (TESTS_PACKAGE, f"{PACKAGE}.cli"),
}
"""The modules, by the beginning of their names, that may import a package beside `llm_proxy`."""

_MODEL_MODULES: Final = frozenset(
    ("actions", "conversation", "errors", "exchange", "miss_report", "turns", "version")
)
_ENTRY_MODULES: Final = frozenset(
    ("", "__main__", "cli", "pytest_plugin", "pytest_sessions", "python_api")
)
_TESTS_ENTRY_MODULES: Final = ("collection", "miss_explanations", "pytest_plugin")
"""The modules of `TESTS_PACKAGE` that stand on pytest and its plugin."""
_LAYERS: Final = (
    "model", "logic", "modes", "shell", "conversation runtime", "LLM tests", "entry points",
)  # fmt: skip

_IMPURE_MODULES: Final = frozenset(
    """
    aiohttp asyncio atexit click concurrent ctypes fcntl fileinput getpass glob http importlib io
    logging mmap multiprocessing os pathlib pkgutil platform pty queue random resource rich runpy
    sched secrets select selectors shelve shutil signal smtplib socket socketserver sqlite3 ssl
    subprocess sys syslog tempfile termios threading time tty urllib.error urllib.request
    urllib.robotparser uuid uvloop webbrowser xmlrpc
    """.split()  # noqa: SIM905 # a table; one name a line would be unreadable
)
"""Modules for sockets, files, clocks, chance, processes, the environment or module search."""

_PURE_NAMES: Final = frozenset(
    (
        "http.HTTPMethod",
        "http.HTTPStatus",
        "io.BytesIO",
        "pathlib.PurePath",
        "pathlib.PurePosixPath",
        "uuid.UUID",
    )
)
"""Names of impure modules that are plain values."""

_IMPURE_CALLS: Final = frozenset(
    ("__import__", "breakpoint", "compile", "eval", "exec", "exit", "input", "open", "print")
)
_CLOCK_METHODS: Final = frozenset(("now", "today", "utcnow"))

_MAY_CATCH_ALL: Final = frozenset(
    (
        f"{PACKAGE}.modes.simulate:SimulateMode._function_reply",
        f"{PACKAGE}.shell.recording.recorder:_write_items",
        f"{PACKAGE}.shell.recording.recorder:SpoolRecorder._file_cassette",
        f"{PACKAGE}.shell.user_code:import_object",
        f"{PACKAGE}.shell.running.embedded:EmbeddedProxy.respond",
        f"{PACKAGE}.shell.running.active_modes:run_in_thread.run",
        f"{PACKAGE}.shell.server.server:ProxyServer._handle_request",
        f"{PACKAGE}.shell.upstream.signing:_run_botocore_lookup",
        f"{RUNTIME_PACKAGE}.client:ChatClient._run",
        f"{RUNTIME_PACKAGE}.errors:error_text",
        f"{RUNTIME_PACKAGE}.provider:provider_events",
        f"{RUNTIME_PACKAGE}.tools:_run_in_thread.work",
        f"{TESTS_PACKAGE}.mcp_server:_serve",
        f"{TESTS_PACKAGE}.plugins:_plugins_of",
        f"{TESTS_PACKAGE}.toolset:ToolSet.aclose",
        f"{TESTS_PACKAGE}.toolset:ToolSet._outcome",
    )
)
"""The functions that may catch every exception.  The outermost frames of a task or a callback:
a failure there is a bug of ours, and is reported as one.  Where an operator's own code, or a plugin
of a project, is loaded and run, which can raise anything: that is reported as its failure.  And the
one call into botocore that runs an operator's programs and reads any file and service: its
exceptions are not documented, and each means that there are no credentials."""

_PROVIDER_NAME: Final = re.compile(
    "|".join(
        sorted({provider.name for provider in PROVIDERS} - {"together"} | {"claude", "google"})
    ),
    re.IGNORECASE,
)
"""The names of providers, but for a word of plain English, and of other products of theirs."""
_MAY_NAME_PROVIDERS: Final = (
    f"{RUNTIME_PACKAGE}.local_provider",
    f"{RUNTIME_PACKAGE}.model_limits",
    f"{RUNTIME_PACKAGE}.settings",
    f"{TESTS_PACKAGE}.providers",
    *(
        f"{PACKAGE}.{prefix}"
        for prefix in (
            "dialects",
            "diff.exchanges",
            "importing.aimock",
            "matching.normalisers",
            "matching.presets",
            "pacing.pace",
            "providers",
            "redaction",
            "shell.upstream.signing",
        )
    ),
)
"""The modules, by the beginning of their names, that name providers: the dialects, `providers`, and
tables of headers, of another tool's format, of presets of clients and of paces, of AWS's hosts, and
those of the conversation runtime and of LLM tests."""

_ATOMIC_GROUP: Final = re.compile(r"[^(]\)(?:[*+?]|\{\d*,?\d*\})\+|\(\?>.")
"""A possessive or atomic group, in the text of a pattern without its character sets."""
_CHARACTER_SET: Final = re.compile(r"\[\^?\]?[^\]]*\]")

_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Source:
    """One parsed module."""

    module: str
    path: str
    text: str
    tree: ast.Module

    def violation(self, node: ast.AST | int, message: str) -> str:
        """A violation at a node or a line."""
        line = node if isinstance(node, int) else getattr(node, "lineno", 1)
        return f"{self.path}:{line}: {message}"


@dataclass(frozen=True, slots=True)
class Import:
    """One name that a module imports."""

    name: str
    """The full name: `a.b` for `from a import b`."""
    line: int
    type_checking_only: bool
    """Under `if TYPE_CHECKING`: never executed."""

    def module(self, own_modules: frozenset[str]) -> str:
        """The module of this package that it comes from; empty where it is another package's."""
        parent = self.name.rpartition(".")[0]
        return next(
            (candidate for candidate in (self.name, parent) if candidate in own_modules), ""
        )


def parse_source(module: str, text: str, path: str = "") -> Source:
    """Parse the text of a module."""
    gc.disable()  # code run by a collection within a parse makes Python 3.11 miscount its depth
    try:
        return Source(module, path or module, text, ast.parse(text))
    finally:
        gc.enable()


def package_sources(folder: Path) -> tuple[Source, ...]:
    """All modules of the package in this folder."""
    return tuple(
        parse_source(_module(path.relative_to(folder.parent)), path.read_text("utf-8"), str(path))
        for path in sorted(folder.rglob("*.py"))
    )


def _module(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def source_nodes(source: Source) -> tuple[ast.AST, ...]:
    """Every node of a source."""
    return tuple(ast.walk(source.tree))


@cache
def source_imports(source: Source) -> tuple[Import, ...]:
    """Every import of a source, also inside functions."""
    type_checking_nodes = {
        inner
        for node in source_nodes(source)
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")
        for statement in node.body
        for inner in ast.walk(statement)
    }
    return tuple(
        Import(_origin(node) + alias.name, node.lineno, node in type_checking_nodes)
        for node in source_nodes(source)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    )


def _origin(node: ast.Import | ast.ImportFrom) -> str:
    return f"{'.' * node.level}{node.module or ''}." if isinstance(node, ast.ImportFrom) else ""


def _modules(sources: Sequence[Source]) -> frozenset[str]:
    return frozenset(source.module for source in sources)


def _layer(module: str) -> int:
    if module.startswith(RUNTIME_PACKAGE):
        return 4
    if module.startswith(TESTS_PACKAGE):
        return 6 if module.removeprefix(f"{TESTS_PACKAGE}.") in _TESTS_ENTRY_MODULES else 5
    name = module.removeprefix(PACKAGE).lstrip(".").partition(".")[0]
    if name in _MODEL_MODULES:
        return 0
    if name in _ENTRY_MODULES:
        return 6
    return {"modes": 2, "shell": 3}.get(name, 1)


def imports_upward(sources: Sequence[Source]) -> Iterator[str]:
    """Imports go downward only: entry points, shell, modes, logic, model."""
    own_modules = _modules(sources)
    for source in sources:
        layer = _layer(source.module)
        for imported in source_imports(source):
            module = imported.module(own_modules)
            if imported.name.startswith("."):
                yield source.violation(
                    imported.line, f"relative import {imported.name}: write it out"
                )
            elif module and (imported_layer := _layer(module)) > layer:
                yield source.violation(
                    imported.line,
                    f"{_LAYERS[layer]} import {module}, which is of the {_LAYERS[imported_layer]}",
                )


def imports_of_runtime(sources: Sequence[Source]) -> Iterator[str]:
    """Only the command line imports the conversation runtime and LLM tests, beside themselves."""
    own_modules = _modules(sources)
    for source in sources:
        for imported in source_imports(source):
            package = imported.module(own_modules).partition(".")[0]
            if not source.module.startswith(_MAY_IMPORT.get(package, "")):
                yield source.violation(imported.line, f"import of {imported.name}")


def import_cycles(sources: Sequence[Source]) -> Iterator[str]:
    """No modules import each other in a cycle."""
    own_modules = _modules(sources)
    graph = {
        source.module: {
            imported.module(own_modules)
            for imported in source_imports(source)
            if not imported.type_checking_only
        }
        - {""}
        for source in sources
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        cycle: list[str] = error.args[1]
        first = next(source for source in sources if source.module == cycle[0])
        yield first.violation(1, f"a circle of imports: {' <- '.join(cycle)}")


def imports_between_dialects(sources: Sequence[Source]) -> Iterator[str]:
    """Only the list of dialects imports a dialect; modules shared by a family are no dialects."""
    own_modules = _modules(sources)
    folder = f"{PACKAGE}.dialects"
    dialect_modules = {source.module for source in sources if _defines_dialect(source)} | {folder}
    for source in sources:
        if source.module.startswith(f"{folder}."):
            for imported in source_imports(source):
                if (module := imported.module(own_modules)) in dialect_modules:
                    yield source.violation(
                        imported.line, f"a file of the dialects imports {module}"
                    )


def _defines_dialect(source: Source) -> bool:
    return source.module.startswith(f"{PACKAGE}.dialects.") and any(
        isinstance(node, ast.ClassDef)
        and not any(ast.unparse(base) == "ABC" for base in node.bases)
        and any(
            isinstance(statement, _Function) and statement.name == "matches"
            for statement in node.body
        )
        for node in source.tree.body
    )


def impure_code(sources: Sequence[Source]) -> Iterator[str]:
    """Only the shell and the entry points use sockets, files, clocks, chance and environment."""
    for source in sources:
        if _layer(source.module) >= _LAYERS.index("shell"):
            continue
        for imported in source_imports(source):
            if imported.name not in _PURE_NAMES and _prefixes(imported.name) & _IMPURE_MODULES:
                yield source.violation(
                    imported.line, f"import of {imported.name} outside the shell"
                )
        for node in source_nodes(source):
            if isinstance(node, ast.Call) and (name := _impure_call(node.func)):
                yield source.violation(node, f"call of {name}() outside the shell")


def _prefixes(name: str) -> set[str]:
    return set(accumulate(name.split("."), "{}.{}".format))


def _impure_call(function: ast.expr) -> str:
    match function:
        case ast.Name(id=name) if name in _IMPURE_CALLS:
            return name
        case ast.Attribute(value=value, attr=name) if name in _CLOCK_METHODS:
            whole = ast.unparse(value)
            return f"{whole}.{name}" if whole.endswith(("date", "datetime")) else ""
    return ""


def missing_docstrings(sources: Sequence[Source]) -> Iterator[str]:
    """Every module has a docstring."""
    for source in sources:
        if not ast.get_docstring(source.tree):
            yield source.violation(1, "no docstring")


def catch_all_handlers(sources: Sequence[Source]) -> Iterator[str]:
    """Only the functions of `_MAY_CATCH_ALL` swallow every exception."""
    for source in sources:
        for frame, node in _nodes_with_frame(source.tree):
            if f"{source.module}:{frame}" not in _MAY_CATCH_ALL and _swallows_all(node):
                yield source.violation(node, f"{frame or 'the module'} catches everything")


def atomic_patterns(sources: Sequence[Source]) -> Iterator[str]:
    """No pattern has atomic or possessive groups: Python before 3.11.5 matches them wrongly."""
    for source in sources:
        for node in source_nodes(source):
            if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
                text = node.value if isinstance(node.value, str) else node.value.decode("latin-1")
                if match := _ATOMIC_GROUP.search(_CHARACTER_SET.sub("", text)):
                    yield source.violation(node, f"{match[0]} in a pattern")


def provider_names(sources: Sequence[Source]) -> Iterator[str]:
    """Only the dialects, `providers` and some tables name a provider, but for texts with spaces."""
    for source in sources:
        is_list_of_names = source.module == RUNTIME_PACKAGE  # of classes, one named by a provider
        if source.module.startswith(_MAY_NAME_PROVIDERS) or is_list_of_names:
            continue
        for node in source_nodes(source):
            if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
                continue
            name = _PROVIDER_NAME.search(node.value)
            if name is not None and len(node.value.split()) == 1:
                yield source.violation(node, f"{name[0]} is the name of a provider")


def _nodes_with_frame(node: ast.AST, frame: str = "") -> Iterator[tuple[str, ast.AST]]:
    """Every node below this one, with the dotted name of the function or class that it is in."""
    for child in ast.iter_child_nodes(node):
        inner = frame
        if isinstance(child, ast.ClassDef | _Function):
            inner = f"{frame}.{child.name}".lstrip(".")
        yield inner, child
        yield from _nodes_with_frame(child, inner)


def _swallows_all(node: ast.AST) -> bool:
    match node:
        case ast.ExceptHandler(type=kind, body=[*_, last]):
            reraises = isinstance(last, ast.Raise) and last.exc is None
            return not reraises and (kind is None or _catches_everything(kind))
        case ast.Call(func=function, args=kinds) if ast.unparse(function).endswith("suppress"):
            return any(map(_catches_everything, kinds))
    return False


def _catches_everything(kind: ast.expr) -> bool:
    kinds = kind.elts if isinstance(kind, ast.Tuple) else [kind]
    return any(
        ast.unparse(exception_type) in {"BaseException", "Exception"} for exception_type in kinds
    )
