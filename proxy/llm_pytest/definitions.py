"""Reads and checks test definitions: files of YAML or JSON.

Every mistake is found when a file is loaded, with its position; except environment variables, which
fixtures may set later: `resolve` fills them in.
"""

from __future__ import annotations

import re
import stat
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from msgspec import structs

from llm_proxy.display import path_as_unicode_text
from llm_proxy.errors import LlmProxyError
from llm_proxy.scenario.documents.loading import check_struct
from llm_proxy.scenario.documents.mistakes import (
    ROOT_PATH,
    DocumentMistake,
    child_path,
    quote_text,
)
from llm_proxy.scenario.documents.names import nearest_choice
from llm_proxy.scenario.documents.parsing import Node
from llm_proxy.yaml_composer import SourceMark
from llm_pytest import variables
from llm_pytest.models import TestSpec, VariableValue
from llm_pytest.prompt import one_line

MAX_DEFINITION_BYTES: Final = 100 << 10
"""Larger files are rejected: Linux limits the prompt, an argument of a command, to 128 KiB."""
DEFINITION_SUFFIXES: Final = (".yaml", ".yml")
"""The names of the files in a folder that are test definitions; JSON files must be named."""
_MARKER: Final = re.compile(r"[A-Za-z]\w*")
_RESERVED_MARKERS: Final = frozenset(("and", "or", "not"))
"""The words of the expressions of `pytest -m`."""
_NO_DEFINITIONS: Final = frozenset(("plugins",))
"""Folders of other files."""

_EXPECTED: Final = "a test definition: an object with name and steps"
_TEMPLATE_FIELDS: Final = (
    "description", "allowed_hosts", "setup", "steps", "teardown",
)  # fmt: skip
"""The fields whose texts may contain variables, except the names of steps and `variables`."""
_UNQUOTED_BRACES: Final = re.compile(r"\s*(?:- +)*(?:[\w$-]+: +)?(?:[\[,] *)*\{\{")
"""A line whose value begins with `{{`, which YAML reads as an object."""


class DefinitionError(LlmProxyError):
    """A test definition that cannot be used, with all its mistakes, one a line."""

    def __init__(self, mistakes: Iterable[DocumentMistake]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__("\n".join(map(str, self.mistakes)))


@dataclass(frozen=True, slots=True)
class CheckedDefinition:
    """The content of a file, and its mistakes."""

    file: str
    spec: TestSpec | None
    """None if there are mistakes."""
    node: Node | None
    """Its values with their positions; None if the file has no object."""
    mistakes: tuple[DocumentMistake, ...] = ()


def load_definition(path: Path) -> TestSpec:
    """The definition of a file.  Raises `DefinitionError`."""
    return parse_definition(path_as_unicode_text(path), read_definition(path))


def parse_definition(file: str, content: bytes) -> TestSpec:
    """The definition in the content of a file; its name selects JSON or YAML.

    Raises `DefinitionError`.
    """
    checked = check_definition(file, content)
    if checked.spec is None:
        raise DefinitionError(checked.mistakes)
    return checked.spec


def read_definition(path: Path) -> bytes:
    """The content of a file, at most one byte more than is allowed.  Raises `DefinitionError`."""
    reason = "not a regular file"
    try:
        mode = path.stat().st_mode
        if stat.S_ISREG(mode):
            with path.open("rb") as stream:
                return stream.read(MAX_DEFINITION_BYTES + 1)
        if stat.S_ISDIR(mode):
            reason = "this is a folder; name a file"
    except FileNotFoundError:
        reason = "no such file"
    except (OSError, ValueError) as error:  # `ValueError`: a null character in the path
        reason = f"cannot read the file: {getattr(error, 'strerror', None) or error}"
    raise DefinitionError([DocumentMistake(path_as_unicode_text(path), 0, 0, ROOT_PATH, reason)])


def definition_files(paths: Sequence[Path]) -> list[Path]:
    """The definitions at and below the paths: files as they are, of folders `is_definition`.

    A path that does not exist is returned, so that reading it fails.  Raises `DefinitionError` for
    a folder that cannot be read.
    """
    files: dict[Path, None] = {}
    for path in paths:
        found = sorted(_files_in(path)) if path.is_dir() else [path]
        files.update(dict.fromkeys(found))
    return list(files)


def is_definition(path: Path) -> bool:
    """Whether a file is a definition by its path below the folder of the definitions.

    It is YAML, no name in its path begins with `.` or `_`, and no folder is named `plugins`.
    """
    is_yaml = path.suffix.lower() in DEFINITION_SUFFIXES
    return is_yaml and not any(map(_is_skipped_folder, path.parts))


def _is_skipped_folder(name: str) -> bool:
    return name.startswith((".", "_")) or name in _NO_DEFINITIONS


def _files_in(folder: Path) -> Iterator[Path]:
    """The definitions in a folder, whose own name is not checked."""
    try:
        paths = list(folder.iterdir())
    except OSError as error:
        message = f"cannot read the folder: {error.strerror}"
        name = path_as_unicode_text(folder)
        raise DefinitionError([DocumentMistake(name, 0, 0, ROOT_PATH, message)]) from None
    for path in paths:
        if path.is_dir():
            if not _is_skipped_folder(path.name) and not path.is_symlink():
                yield from _files_in(path)
        elif is_definition(Path(path.name)):
            yield path


def check_definition(file: str, content: bytes) -> CheckedDefinition:
    """Check the content of a file, and collect all mistakes."""
    if len(content) > MAX_DEFINITION_BYTES:
        limit = f"{MAX_DEFINITION_BYTES >> 10} KiB"
        message = f"the file is larger than {limit}; shorten the test definition"
        return CheckedDefinition(
            file, None, None, (DocumentMistake(file, 0, 0, ROOT_PATH, message),)
        )
    checked = check_struct(TestSpec, file, content, _EXPECTED)
    source = content.decode("utf-8-sig", "replace").replace("\r\n", "\n").replace("\r", "\n")
    mistakes = list(_with_quote_hints(checked.mistakes, source))
    if checked.node is not None:
        mistakes += _NodeChecker(file, source, checked.node).mistakes()
    in_order = sorted(dict.fromkeys(mistakes), key=lambda mistake: (mistake.line, mistake.column))
    spec = None if in_order else checked.struct
    return CheckedDefinition(file, spec, checked.node, tuple(in_order))


def resolve(spec: TestSpec, environ: Mapping[str, str], file: str = "") -> TestSpec:
    """The definition with the values of its variables and of the environment in all texts.

    `file` is for messages.  Raises `DefinitionError`, also if the texts become more than
    `MAX_DEFINITION_BYTES` characters longer.
    """
    mistakes: list[DocumentMistake] = []
    max_growth = MAX_DEFINITION_BYTES
    values: dict[str, VariableValue] = {}

    def render(text: str, path: str) -> str:
        nonlocal max_growth
        try:
            rendered = variables.render(text, values, environ, max_growth)
        except variables.VariableError as error:
            problem = f"{path}: {error}"
            mistakes.append(DocumentMistake(file or spec.name, 0, 0, path, problem))
            return ""
        max_growth -= len(rendered) - len(text)
        return rendered

    def render_all(texts: tuple[str, ...], path: str) -> tuple[str, ...]:
        return tuple(render(text, f"{path}[{index}]") for index, text in enumerate(texts))

    for name, value in spec.variables.items():
        path = child_path("$.variables", name)
        values[name] = render(value, path) if isinstance(value, str) else value
    resolved = structs.replace(
        spec,
        description=render(spec.description, "$.description"),
        variables=values,
        allowed_hosts=render_all(spec.allowed_hosts, "$.allowed_hosts"),
        setup=render_all(spec.setup, "$.setup"),
        steps=tuple(
            structs.replace(
                step,
                do=render(step.do, f"$.steps[{index}].do"),
                expect=(
                    render(step.expect, f"$.steps[{index}].expect")
                    if isinstance(step.expect, str)
                    else render_all(step.expect, f"$.steps[{index}].expect")
                ),
            )
            for index, step in enumerate(spec.steps)
        ),
        teardown=render_all(spec.teardown, "$.teardown"),
    )
    if mistakes:
        raise DefinitionError(mistakes)
    return resolved


def texts_below(node: Node, path: str) -> Iterator[tuple[Node, str]]:
    """The texts in a value, with their paths in the names of the file."""
    match node.value:
        case str():
            yield node, path
        case list() as items:
            for index, item in enumerate(items):
                yield from texts_below(item, child_path(path, index))
        case dict() as members:
            for member in members.values():
                yield from texts_below(member, child_path(path, member.name))
        case _:
            pass


def template_texts(node: Node) -> Iterator[tuple[Node, str]]:
    """The texts of a definition that may contain variables."""
    for field in _TEMPLATE_FIELDS:
        if (member := node.value.get(field)) is None:
            continue
        for text, path in texts_below(member, child_path(ROOT_PATH, member.name)):
            if not (field == "steps" and text.name == "name"):
                yield text, path


def _with_quote_hints(
    mistakes: Iterable[DocumentMistake], source: str
) -> Iterator[DocumentMistake]:
    """The mistakes; one for each line whose value begins with unquoted braces."""
    lines = source.split("\n")
    for mistake in mistakes:
        line = lines[mistake.line - 1] if 0 < mistake.line <= len(lines) else ""
        if (match := _UNQUOTED_BRACES.match(line)) is None or mistake.file.endswith(".json"):
            yield mistake
            continue
        value = line[match.end() - 2 :].strip()
        quoted = quote_text(value, 60)
        if '"' in value:
            quoted = f"'{quoted[1:-1]}'"
        message = f"text that begins with {{{{ must be in quotes; write {quoted}"
        yield replace(mistake, column=match.end() - 1, json_path=ROOT_PATH, message=message)


class _NodeChecker:
    """Finds the mistakes in a definition that its types do not show."""

    def __init__(self, file: str, source: str, root: Node) -> None:
        self._file = file
        self._source = source
        self._line_starts = [0, *(match.end() for match in re.finditer("\n", source))]
        self._members: dict[str, Node] = root.value
        self._root = root

    def mistakes(self) -> Iterator[DocumentMistake]:
        """All of them."""
        yield from self._mistakes_in_names()
        yield from self._mistakes_in_variables()
        for text, path in texts_below(self._root, ROOT_PATH):
            if "\0" in text.value:
                message = "the text contains a null character; remove the character"
                yield self._mistake(text.mark, path, message)
        names = self._variable_names()
        for text, path in template_texts(self._root):
            yield from self._mistakes_in_expressions(text, path, names)

    def _mistakes_in_names(self) -> Iterator[DocumentMistake]:
        first_by_name: dict[str, SourceMark] = {}
        tags = self._members.get("tags")
        for tag, path in texts_below(tags, child_path(ROOT_PATH, tags.name)) if tags else ():
            if not _MARKER.fullmatch(tag.value) or tag.value in _RESERVED_MARKERS:
                message = (
                    f"the tag {quote_text(tag.value)} is not a valid pytest marker; use letters, "
                    "digits and _"
                )
                yield self._mistake(tag.mark, path, message)
        for field in ("name", "provider", "model"):
            if (member := self._members.get(field)) is not None:
                for text, path in texts_below(member, child_path(ROOT_PATH, member.name)):
                    yield from self._mistakes_in_name(text, path)
        steps = self._members.get("steps")
        for index, step in enumerate(steps.value if steps is not None else ()):
            name = step.value.get("name") if isinstance(step.value, dict) else None
            if name is None or not isinstance(name.value, str):
                continue
            path = f"$.steps[{index}].{name.name}"
            yield from self._mistakes_in_name(name, path)
            first = first_by_name.setdefault(one_line(name.value), name.mark)
            if first != name.mark:
                problem = f"duplicate step name {quote_text(name.value)}"
                message = f"{problem}; the first one is at line {first.line}"
                yield self._mistake(name.mark, path, message)

    def _mistakes_in_name(self, text: Node, path: str) -> Iterator[DocumentMistake]:
        if "{{" in text.value:
            yield self._mistake(text.mark, path, "variables are not supported in this field")
        if len(text.value.splitlines()) > 1 or text.value.isspace():
            yield self._mistake(text.mark, path, "expected one line of text")

    def _mistakes_in_variables(self) -> Iterator[DocumentMistake]:
        names = self._variable_names()
        for index, (name, value) in enumerate(self._variables.items()):
            path = child_path("$.variables", name)
            if not variables.is_valid_name(name):
                message = "not a valid name of a variable; use letters, digits and _, but not env"
                yield self._mistake(value.place, path, message)
            if isinstance(value.value, str):
                # Values may use those above, so there are no cycles.
                yield from self._mistakes_in_expressions(value, path, names[:index], names)

    def _mistakes_in_expressions(
        self, text: Node, path: str, known_names: Sequence[str], later_names: Sequence[str] = ()
    ) -> Iterator[DocumentMistake]:
        for name in dict.fromkeys(variables.expressions(text.value)):
            if name in known_names or name.startswith(f"{variables.ENVIRONMENT_NAME}."):
                continue
            if not name:
                message = (
                    "{{ is the start of a variable; write {{ name }}, {{ env.NAME }}, or "
                    "{{ '{{' }} for two braces"
                )
            elif name in later_names:
                message = f"the variable '{name}' is defined below; define it above"
            elif nearest := nearest_choice(name, known_names):
                message = f"unknown variable '{name}'; did you mean '{nearest}'?"
            else:
                message = (
                    f"unknown variable '{name}'; known: {', '.join(known_names) or 'none'}; add it "
                    f"to variables, or write {{{{ env.{name} }}}} for an environment variable"
                )
            yield self._mistake(self._position_in_text(text.mark, name), path, message)

    @property
    def _variables(self) -> Mapping[str, Node]:
        member = self._members.get("variables")
        return {} if member is None else member.value

    def _variable_names(self) -> list[str]:
        return [*self._variables]

    def _position_in_text(self, start: SourceMark, name: str) -> SourceMark:
        """Where a name is in an expression of the text that begins at `start`."""
        begin = self._line_starts[start.line - 1] + start.column - 1
        pattern = re.compile(rf"\{{\{{[ \t]*({re.escape(name)})\b")
        if not name or (found := pattern.search(self._source, begin)) is None:
            return start
        line = bisect_right(self._line_starts, found.start(1))
        return SourceMark(line, found.start(1) - self._line_starts[line - 1] + 1)

    def _mistake(self, mark: SourceMark, path: str, message: str) -> DocumentMistake:
        return DocumentMistake(self._file, *mark, path, message)
