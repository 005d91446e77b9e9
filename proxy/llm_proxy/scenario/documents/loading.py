"""Loads scenario files and collects every mistake.

A file holds one scenario (an object with an `id`), a list of scenarios, or an object of
`scenarios` and a `mock`; a YAML file may hold several of these, separated by `---`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final, Generic, TypeVar

from msgspec import inspect as kinds

from llm_proxy.errors import UsageError
from llm_proxy.scenario.documents import names
from llm_proxy.scenario.documents.checking import DocumentChecker
from llm_proxy.scenario.documents.document import MockSpec, Scenario, ScenarioDocument
from llm_proxy.scenario.documents.mistakes import (
    ROOT_PATH,
    DocumentMistake,
    Located,
    child_path,
    quote_text,
)
from llm_proxy.scenario.documents.parsing import (
    Node,
    NodeComposer,
    json_events,
    mark_at,
    yaml_events,
)
from llm_proxy.yaml_composer import SourceMark, UnreadableDocument

T = TypeVar("T")

MAX_FILE_BYTES: Final = 16 * 1024 * 1024
"""Larger files are rejected."""

_SCENARIO_TYPE, _SCENARIO_LIST_TYPE, _DOCUMENT_TYPE = kinds.multi_type_info(
    (Scenario, tuple[Scenario, ...], ScenarioDocument)
)
_SCHEMA_FIELD: Final = "$schema"
"""The URL of the JSON Schema for editors; ignored here."""


@dataclass(frozen=True, slots=True)
class LoadedScenarios:
    """The contents of scenario files, and their mistakes."""

    scenarios: tuple[Located[Scenario], ...] = ()
    """Without mistakes, in the order of the files."""
    mocks: tuple[Located[MockSpec], ...] = ()
    """More than one is a mistake."""
    mistakes: tuple[DocumentMistake, ...] = ()
    warnings: tuple[DocumentMistake, ...] = ()
    """These do not prevent the scenarios from being used."""
    is_blank: bool = False
    """Whether it is one file with only white space and comments."""

    @property
    def mock(self) -> MockSpec | None:
        """The mock for requests that no scenario answers."""
        return self.mocks[0].value if self.mocks else None


@dataclass(frozen=True, slots=True)
class CheckedStruct(Generic[T]):
    """A file of one struct, its values with their positions, and its mistakes."""

    struct: T | None
    """None if there are mistakes."""
    node: Node | None
    """Its valid values, with the canonical names; None if the file has no object."""
    mistakes: tuple[DocumentMistake, ...]


def check_struct(
    struct_type: type[T], file: str, content: bytes, expected: str
) -> CheckedStruct[T]:
    """Parse and check a file that holds one object; its name selects JSON or YAML.

    `expected` describes the object for messages.
    """
    checker = DocumentChecker(file)
    composer, error = _compose(file, content)
    node: Node | None = None
    if error is not None:
        checker.add_mistake(error.mark, ROOT_PATH, error.message)
    elif not any(document.value is not None for document in composer.documents):
        checker.add_mistake(SourceMark(0, 0), ROOT_PATH, f"the file is empty; expected {expected}")
    elif len(composer.documents) > 1:
        message = "the file has more than one document; put each document in a file of its own"
        checker.add_mistake(composer.documents[1].mark, ROOT_PATH, message)
    elif isinstance((document := composer.documents[0]).value, dict):
        members = {name: node for name, node in document.value.items() if name != _SCHEMA_FIELD}
        node = checker.check_and_normalize(
            document._replace(value=members), kinds.type_info(struct_type), ROOT_PATH
        )
    else:
        checker.add_mistake(document.mark, ROOT_PATH, f"expected {expected}")
    mistakes = tuple(_sorted_mistakes(composer, checker))
    struct = None if mistakes or node is None else node.struct
    return CheckedStruct(struct if isinstance(struct, struct_type) else None, node, mistakes)


def parse_scenario_file(file: str, content: bytes) -> LoadedScenarios:
    """Parse and check the content of a scenario file; its name selects JSON or YAML."""
    checker = DocumentChecker(file)
    composer, error = _compose(file, content)
    if error is not None:
        checker.add_mistake(error.mark, ROOT_PATH, error.message)
        if error.discards_last_document:
            del composer.documents[-1:]
    documents = [node for node in composer.documents if node.value is not None]
    for node in documents:
        if isinstance(node.value, dict):
            members = {name: member for name, member in node.value.items() if name != _SCHEMA_FIELD}
            document_type = _DOCUMENT_TYPE if _is_scenario_document(members) else _SCENARIO_TYPE
            checker.check_and_normalize(node._replace(value=members), document_type, ROOT_PATH)
        elif isinstance(node.value, list):
            checker.check_and_normalize(node, _SCENARIO_LIST_TYPE, ROOT_PATH)
        else:
            message = "expected a scenario: an object with id, description and turns"
            checker.add_mistake(node.mark, ROOT_PATH, message)
    mistakes = _sorted_mistakes(composer, checker)
    warnings = checker.warnings
    is_blank = not documents and not mistakes
    if is_blank:
        warnings = [
            DocumentMistake(
                file, 0, 0, ROOT_PATH, "the file contains no scenario", fails_lint=False
            )
        ]
    loaded = LoadedScenarios(
        tuple(located for located in checker.valid_structs if isinstance(located.value, Scenario)),
        tuple(located for located in checker.valid_structs if isinstance(located.value, MockSpec)),
        tuple(mistakes),
        tuple(sorted(warnings, key=_location_key)),
    )
    return replace(merge_loaded([loaded]), is_blank=is_blank)


def merge_loaded(files: Iterable[LoadedScenarios]) -> LoadedScenarios:
    """Merge files in order; duplicate ids and several mocks are mistakes."""
    loaded = list(files)
    scenarios = tuple(scenario for part in loaded for scenario in part.scenarios)
    mocks = tuple(mock for part in loaded for mock in part.mocks)
    mistakes = [mistake for part in loaded for mistake in part.mistakes]
    first_by_id: dict[str, Located[Scenario]] = {}
    duplicates: list[tuple[Located[Any], Located[Any], str]] = []
    for scenario in scenarios:
        first = first_by_id.setdefault(scenario.value.id, scenario)
        if first is not scenario:
            problem = f"duplicate scenario id {quote_text(scenario.value.id)}"
            duplicates.append((scenario, first, problem))
    duplicates += [(mock, mocks[0], "duplicate mock") for mock in mocks[1:]]
    for located, first, problem in duplicates:
        where = f"line {first.line}" if first.file == located.file else f"{first.file}:{first.line}"
        message = f"{problem}; the first one is at {where}"
        mistakes.append(
            DocumentMistake(located.file, located.line, located.column, located.json_path, message)
        )
    warnings = tuple(warning for part in loaded for warning in part.warnings)
    return LoadedScenarios(scenarios, mocks, tuple(dict.fromkeys(mistakes)), warnings)


def parse_struct(
    struct_type: type[T],
    source_name: str,
    content: str | bytes,
    *,
    is_json: bool = False,
    list_field: str = "",
) -> T:
    """Parse a struct; `source_name` is the name of the source in messages.

    The name selects JSON or YAML; with `is_json` it is JSON of any size.  With `list_field` a list
    alone is the value of this field.  Raises `UsageError` with all mistakes.
    """
    if isinstance(content, str):
        content = content.encode("utf-8", "replace")
    composer, error = _compose(source_name, content, is_json=is_json)
    if error is not None:
        mark = error.mark
        raise UsageError(f"{source_name}:{mark.line}:{mark.column}: {error.message}")
    documents, path_prefix = composer.documents, ROOT_PATH
    hint = "expected one object such as {reply: Hello}"
    if list_field:
        hint = f"expected a list, or an object whose field '{list_field}' is a list"
        if len(documents) == 1 and isinstance(documents[0].value, list):
            named_list = documents[0]._replace(name=list_field)
            documents = [Node({list_field: named_list}, named_list.mark)]
            path_prefix = child_path(ROOT_PATH, list_field)
        elif len(documents) != 1 or not isinstance(documents[0].value, dict):
            raise UsageError(f"{source_name}: {hint}")
    checker = DocumentChecker(source_name)
    for document in documents[:1]:
        checker.check_and_normalize(document, kinds.type_info(struct_type), ROOT_PATH)
    if mistakes := _sorted_mistakes(composer, checker):
        shown_mistakes = (
            replace(mistake, json_path=ROOT_PATH + mistake.json_path.removeprefix(path_prefix))
            if mistake.json_path.startswith(path_prefix)
            else mistake
            for mistake in mistakes
        )
        raise UsageError("; ".join(map(str, shown_mistakes)))
    struct = checker.valid_structs[-1].value if len(documents) == 1 else None
    if not isinstance(struct, struct_type):
        raise UsageError(f"{source_name}: {hint}")
    return struct


def _compose(
    file: str, content: bytes, *, is_json: bool = False
) -> tuple[NodeComposer, UnreadableDocument | None]:
    """The documents of a content, and the error that ends them; its name selects JSON or YAML."""
    composer = NodeComposer(file)
    if len(content) > MAX_FILE_BYTES and not is_json:
        message = f"the file is larger than {MAX_FILE_BYTES >> 20} MiB; split it"
        return composer, UnreadableDocument(SourceMark(0, 0), message)
    try:
        text = _decode_text(content)
        if not is_json and not file.lower().endswith(".json"):
            composer.compose_all(yaml_events(text))
        elif text.strip():
            composer.compose_all(json_events(text))
    except UnreadableDocument as error:
        return composer, error
    return composer, None


def _decode_text(content: bytes) -> str:
    """The text of a file, without a byte order mark, with LF line ends."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        text_before = _normalize_line_ends(content[: error.start].decode("utf-8-sig", "replace"))
        byte = content[error.start]
        raise UnreadableDocument(
            mark_at(text_before, len(text_before)),
            f"the byte 0x{byte:02x} is not valid UTF-8; save the file as UTF-8",
        ) from None
    return _normalize_line_ends(text)


def _normalize_line_ends(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _sorted_mistakes(composer: NodeComposer, checker: DocumentChecker) -> list[DocumentMistake]:
    """All mistakes by position; of a number that the composer found too large, only its own."""
    further_mistakes = (
        mistake
        for mistake in checker.mistakes
        if (mistake.line, mistake.column) not in composer.too_large_marks
    )
    return sorted((*composer.mistakes, *further_mistakes), key=_location_key)


def _location_key(mistake: DocumentMistake) -> tuple[int, int]:
    return mistake.line, mistake.column


def _is_scenario_document(written_names: Iterable[str]) -> bool:
    """Whether an object is a `ScenarioDocument`, by its names or by similar ones."""
    fields = ScenarioDocument.__struct_fields__
    if any(name in Scenario.__struct_fields__ for name in written_names):
        return any(name in fields for name in written_names)
    return any(names.nearest_field_name(name, fields) for name in written_names)
