"""Loads scenario files and collects every mistake.

A file holds one scenario (an object with an `id`), a list of scenarios, or an object of
`scenarios` and a `mock`; a YAML file may hold several of these, parted by `---`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from msgspec import inspect as kinds

from llm_proxy.errors import UsageError
from llm_proxy.scenario.documents import names
from llm_proxy.scenario.documents.checking import DocumentChecker, Located
from llm_proxy.scenario.documents.document import MockSpec, Scenario, ScenarioDocument
from llm_proxy.scenario.documents.mistakes import ROOT, DocumentMistake, child_path, quote_text
from llm_proxy.scenario.documents.parsing import json_text, yaml_text
from llm_proxy.scenario.documents.parsing.composing import DocumentComposer
from llm_proxy.scenario.documents.parsing.nodes import (
    ListNode,
    Node,
    ObjectEntry,
    ObjectNode,
    ScalarNode,
    SourceMark,
    UnreadableDocument,
    mark_at,
)

T = TypeVar("T")

MAX_FILE: Final = 16 * 1024 * 1024
"""Bytes of the largest file that is read."""

_SCENARIO, _SCENARIOS, _DOCUMENT = kinds.multi_type_info(
    (Scenario, tuple[Scenario, ...], ScenarioDocument)
)
_SCHEMA: Final = "$schema"
"""How an editor is told of the JSON Schema; it says nothing to us."""


@dataclass(frozen=True, slots=True)
class LoadedScenarios:
    """What files hold, and what is wrong with them."""

    scenarios: tuple[Located[Scenario], ...] = ()
    """Those without a mistake, in the order of the files."""
    mocks: tuple[Located[MockSpec], ...] = ()
    """More than one is a mistake."""
    mistakes: tuple[DocumentMistake, ...] = ()
    warnings: tuple[DocumentMistake, ...] = ()
    """What does not keep them from being played."""
    is_blank: bool = False
    """Whether it is one file with nothing in it but blanks and comments."""

    @property
    def mock(self) -> MockSpec | None:
        """The mock that answers what no scenario does."""
        return self.mocks[0].value if self.mocks else None


def load_file(file: str, content: bytes) -> LoadedScenarios:
    """What the file of this name and content holds."""
    checker = DocumentChecker(file)
    composer = DocumentComposer(file)
    try:
        _read_into(file, content, composer)
    except UnreadableDocument as error:
        mark = error.mark
        composer.mistakes.append(DocumentMistake(file, mark.line, mark.column, ROOT, error.message))
        if error.ends_reading:
            del composer.documents[-1:]
    documents = [document for document in composer.documents if not _is_empty_node(document)]
    for node in documents:
        _check_document(node, checker)
    mistakes = composer.mistakes + checker.mistakes
    warnings = checker.warnings
    is_blank = not documents and not mistakes
    if is_blank:
        warnings = [
            DocumentMistake(file, 0, 0, ROOT, "the file holds no scenario", fails_lint=False)
        ]
    loaded = LoadedScenarios(
        tuple(
            complete_struct
            for complete_struct in checker.complete_structs
            if isinstance(complete_struct.value, Scenario)
        ),
        tuple(
            complete_struct
            for complete_struct in checker.complete_structs
            if isinstance(complete_struct.value, MockSpec)
        ),
        tuple(sorted(mistakes, key=_location_text)),
        tuple(sorted(warnings, key=_location_text)),
    )
    return replace(merge_loaded([loaded]), is_blank=is_blank)


def merge_loaded(parts: Iterable[LoadedScenarios]) -> LoadedScenarios:
    """What several files hold, in their order; ids that come twice are mistakes."""
    loaded = list(parts)
    scenarios = tuple(scenario for part in loaded for scenario in part.scenarios)
    mocks = tuple(mock for part in loaded for mock in part.mocks)
    mistakes = [mistake for part in loaded for mistake in part.mistakes]
    mistakes += [*_duplicate_ids(scenarios), *_further_mocks(mocks)]
    warnings = tuple(warning for part in loaded for warning in part.warnings)
    return LoadedScenarios(scenarios, mocks, tuple(dict.fromkeys(mistakes)), warnings)


def unreadable_file(file: str, why: str) -> LoadedScenarios:
    """What is known of a file that could not be read at all."""
    return LoadedScenarios(mistakes=(DocumentMistake(file, 0, 0, ROOT, why),))


def parse_struct(kind: type[T], name: str, text: str, *, is_json: bool = False) -> T:
    """The struct that a text spells, outside of any file; `name` stands for it in messages.

    Raises `UsageError` with everything that is wrong.
    """
    composer = DocumentComposer(name)
    with _require_located(name):
        if is_json:
            json_text.read_json(text, composer)
        else:
            _read_into(name, text.encode("utf-8", "replace"), composer)
    return _only_struct(kind, name, composer, "write one object, such as {reply: Hello}")


def parse_struct_file(kind: type[T], file: str, content: bytes, field: str) -> T:
    """The struct that a file of this name and content spells; a list alone is its `field`.

    Raises `UsageError` with everything that is wrong.
    """
    composer = DocumentComposer(file)
    with _require_located(file):
        _read_into(file, content, composer)
    otherwise = f"write one list, called {field}"
    match composer.documents:
        case [ListNode() as node]:
            composer.documents = [
                ObjectNode((ObjectEntry(field, node.mark, node, field),), node.mark)
            ]
            return _only_struct(kind, file, composer, otherwise, child_path(ROOT, field))
        case [ObjectNode()]:
            return _only_struct(kind, file, composer, otherwise)
        case _:
            raise UsageError(f"{file}: {otherwise}")


@contextmanager
def _require_located(name: str) -> Iterator[None]:
    """Raises `UsageError`, with the place, for what cannot be read."""
    try:
        yield
    except UnreadableDocument as error:
        mark = error.mark
        raise UsageError(f"{name}:{mark.line}:{mark.column}: {error.message}") from None


def _only_struct(
    kind: type[T], name: str, composer: DocumentComposer, otherwise: str, within: str = ROOT
) -> T:
    """The struct that the only document is; `within` is the path of what its file holds of it."""
    checker = DocumentChecker(name)
    for node in composer.documents[:1]:
        checker.check_value(node, kinds.type_info(kind), ROOT)
    mistakes = sorted((*composer.mistakes, *checker.mistakes), key=_location_text)
    if mistakes:
        told = (
            replace(mistake, path=ROOT + mistake.path.removeprefix(within)) for mistake in mistakes
        )
        raise UsageError("; ".join(map(str, told)))
    if len(composer.documents) != 1 or not isinstance(checker.complete_structs[-1].value, kind):
        raise UsageError(f"{name}: {otherwise}")
    whole: T = checker.complete_structs[-1].value
    return whole


def _read_into(file: str, content: bytes, composer: DocumentComposer) -> None:
    if len(content) > MAX_FILE:
        raise UnreadableDocument(
            SourceMark(0, 0), f"it has more than {MAX_FILE >> 20} MiB: split it up"
        )
    text = _decode_text(content)
    if not file.lower().endswith(".json"):
        yaml_text.read_yaml(text, composer)
    elif text.strip():
        json_text.read_json(text, composer)


def _decode_text(content: bytes) -> str:
    """The text of a file, without a byte order mark, its lines ended by LF."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = _split_lines(content[: error.start].decode("utf-8-sig", "replace"))
        byte = content[error.start]
        raise UnreadableDocument(
            mark_at(before, len(before)),
            f"the byte 0x{byte:02x} is no UTF-8: save the file as UTF-8",
        ) from None
    return _split_lines(text)


def _split_lines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _location_text(document_mistake: DocumentMistake) -> tuple[int, int]:
    return document_mistake.line, document_mistake.column


def _is_empty_node(node: Node) -> bool:
    return isinstance(node, ScalarNode) and node.value is None


def _check_document(node: Node, checker: DocumentChecker) -> None:
    match node:
        case ListNode():
            checker.check_value(node, _SCENARIOS, ROOT)
        case ObjectNode(entries=entries):
            rest = ObjectNode(tuple(entry for entry in entries if entry.name != _SCHEMA), node.mark)
            checker.check_value(rest, _DOCUMENT if _is_collection(rest) else _SCENARIO, ROOT)
        case ScalarNode():
            checker.add_mistake(
                node.mark, ROOT, "a scenario is an object: write id, description, turns"
            )


def _is_collection(node: ObjectNode) -> bool:
    """Whether an object is one of scenarios and a mock: it names them, or tries to."""
    fields = ScenarioDocument.__struct_fields__
    items = [entry.name for entry in node.entries]
    if any(text in Scenario.__struct_fields__ for text in items):
        return any(text in fields for text in items)
    return any(names.nearest_name(text, fields) for text in items)


def _duplicate_ids(scenarios: Iterable[Located[Scenario]]) -> Iterator[DocumentMistake]:
    seen: dict[str, Located[Scenario]] = {}
    for scenario in scenarios:
        first = seen.setdefault(scenario.value.id, scenario)
        if first is not scenario:
            yield _duplicate_mistake(
                scenario, first, f"there are two scenarios {quote_text(scenario.value.id)}"
            )


def _further_mocks(mocks: Sequence[Located[MockSpec]]) -> Iterator[DocumentMistake]:
    for mock in mocks[1:]:
        yield _duplicate_mistake(mock, mocks[0], "there are two mocks, and only one can answer")


def _duplicate_mistake(
    located: Located[object], first: Located[object], label: str
) -> DocumentMistake:
    place = f"line {first.line}" if first.file == located.file else f"{first.file}:{first.line}"
    return DocumentMistake(
        located.file,
        located.line,
        located.column,
        located.path,
        f"{label}: the first is in {place}",
    )
