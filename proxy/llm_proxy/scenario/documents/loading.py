"""Scenario files: what is in them, and everything that is wrong with them.

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
from llm_proxy.scenario.documents.checking import Checker, Placed
from llm_proxy.scenario.documents.document import Document, Mock, Scenario
from llm_proxy.scenario.documents.mistakes import ROOT, Mistake, child, shown
from llm_proxy.scenario.documents.parsing import json_text, yaml_text
from llm_proxy.scenario.documents.parsing.composing import Composer
from llm_proxy.scenario.documents.parsing.nodes import (
    Entry,
    Fields,
    Items,
    Mark,
    Node,
    Scalar,
    Unreadable,
    mark_at,
)

T = TypeVar("T")

MAX_FILE: Final = 16 * 1024 * 1024
"""Bytes of the largest file that is read."""

_SCENARIO, _SCENARIOS, _DOCUMENT = kinds.multi_type_info((Scenario, tuple[Scenario, ...], Document))
_SCHEMA: Final = "$schema"
"""How an editor is told of the JSON Schema; it says nothing to us."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """What files hold, and what is wrong with them."""

    scenarios: tuple[Placed[Scenario], ...] = ()
    """Those without a mistake, in the order of the files."""
    mocks: tuple[Placed[Mock], ...] = ()
    """More than one is a mistake."""
    mistakes: tuple[Mistake, ...] = ()
    warnings: tuple[Mistake, ...] = ()
    """What does not keep them from being played."""
    is_blank: bool = False
    """Whether it is one file with nothing in it but blanks and comments."""

    @property
    def mock(self) -> Mock | None:
        """The mock that answers what no scenario does."""
        return self.mocks[0].value if self.mocks else None


def load(file: str, content: bytes) -> Loaded:
    """What the file of this name and content holds."""
    checker = Checker(file)
    composer = Composer(file)
    try:
        _read(file, content, composer)
    except Unreadable as error:
        mark = error.mark
        composer.mistakes.append(Mistake(file, mark.line, mark.column, ROOT, error.message))
        if error.cuts:
            del composer.documents[-1:]
    documents = [it for it in composer.documents if not _is_nothing(it)]
    for node in documents:
        _check(node, checker)
    mistakes = composer.mistakes + checker.mistakes
    warnings = checker.warnings
    is_blank = not documents and not mistakes
    if is_blank:
        warnings = [Mistake(file, 0, 0, ROOT, "the file holds no scenario", fails_lint=False)]
    loaded = Loaded(
        tuple(it for it in checker.whole if isinstance(it.value, Scenario)),
        tuple(it for it in checker.whole if isinstance(it.value, Mock)),
        tuple(sorted(mistakes, key=_place)),
        tuple(sorted(warnings, key=_place)),
    )
    return replace(together([loaded]), is_blank=is_blank)


def together(parts: Iterable[Loaded]) -> Loaded:
    """What several files hold, in their order; ids that come twice are mistakes."""
    loaded = list(parts)
    scenarios = tuple(it for part in loaded for it in part.scenarios)
    mocks = tuple(it for part in loaded for it in part.mocks)
    mistakes = [it for part in loaded for it in part.mistakes]
    mistakes += [*_twins(scenarios), *_second_mocks(mocks)]
    warnings = tuple(it for part in loaded for it in part.warnings)
    return Loaded(scenarios, mocks, tuple(dict.fromkeys(mistakes)), warnings)


def unreadable(file: str, why: str) -> Loaded:
    """What is known of a file that could not be read at all."""
    return Loaded(mistakes=(Mistake(file, 0, 0, ROOT, why),))


def one(kind: type[T], name: str, text: str, *, is_json: bool = False) -> T:
    """The struct that a text spells, outside of any file; `name` stands for it in messages.

    Raises `UsageError` with everything that is wrong.
    """
    composer = Composer(name)
    with _placed(name):
        if is_json:
            json_text.read(text, composer)
        else:
            _read(name, text.encode("utf-8", "replace"), composer)
    return _only(kind, name, composer, "write one object, such as {reply: Hello}")


def one_file(kind: type[T], file: str, content: bytes, field: str) -> T:
    """The struct that a file of this name and content spells; a list alone is its `field`.

    Raises `UsageError` with everything that is wrong.
    """
    composer = Composer(file)
    with _placed(file):
        _read(file, content, composer)
    otherwise = f"write one list, called {field}"
    match composer.documents:
        case [Items() as node]:
            composer.documents = [Fields((Entry(field, node.mark, node, field),), node.mark)]
            return _only(kind, file, composer, otherwise, child(ROOT, field))
        case [Fields()]:
            return _only(kind, file, composer, otherwise)
        case _:
            raise UsageError(f"{file}: {otherwise}")


@contextmanager
def _placed(name: str) -> Iterator[None]:
    """Raises `UsageError`, with the place, for what cannot be read."""
    try:
        yield
    except Unreadable as error:
        mark = error.mark
        raise UsageError(f"{name}:{mark.line}:{mark.column}: {error.message}") from None


def _only(kind: type[T], name: str, composer: Composer, otherwise: str, within: str = ROOT) -> T:
    """The struct that the only document is; `within` is the path of what its file holds of it."""
    checker = Checker(name)
    for node in composer.documents[:1]:
        checker.check(node, kinds.type_info(kind), ROOT)
    mistakes = sorted((*composer.mistakes, *checker.mistakes), key=_place)
    if mistakes:
        told = (replace(it, path=ROOT + it.path.removeprefix(within)) for it in mistakes)
        raise UsageError("; ".join(map(str, told)))
    if len(composer.documents) != 1 or not isinstance(checker.whole[-1].value, kind):
        raise UsageError(f"{name}: {otherwise}")
    whole: T = checker.whole[-1].value
    return whole


def _read(file: str, content: bytes, composer: Composer) -> None:
    if len(content) > MAX_FILE:
        raise Unreadable(Mark(0, 0), f"it has more than {MAX_FILE >> 20} MiB: split it up")
    text = _decoded(content)
    if not file.lower().endswith(".json"):
        yaml_text.read(text, composer)
    elif text.strip():
        json_text.read(text, composer)


def _decoded(content: bytes) -> str:
    """The text of a file, without a byte order mark, its lines ended by LF."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = _lines(content[: error.start].decode("utf-8-sig", "replace"))
        byte = content[error.start]
        raise Unreadable(
            mark_at(before, len(before)),
            f"the byte 0x{byte:02x} is no UTF-8: save the file as UTF-8",
        ) from None
    return _lines(text)


def _lines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _place(it: Mistake) -> tuple[int, int]:
    return it.line, it.column


def _is_nothing(node: Node) -> bool:
    return isinstance(node, Scalar) and node.value is None


def _check(node: Node, checker: Checker) -> None:
    """Check a document as what it seems to be."""
    match node:
        case Items():
            checker.check(node, _SCENARIOS, ROOT)
        case Fields(entries=entries):
            rest = Fields(tuple(it for it in entries if it.name != _SCHEMA), node.mark)
            checker.check(rest, _DOCUMENT if _is_several(rest) else _SCENARIO, ROOT)
        case Scalar():
            checker.refuse(node.mark, ROOT, "a scenario is an object: write id, description, turns")


def _is_several(node: Fields) -> bool:
    """Whether an object is one of scenarios and a mock: it names them, or tries to."""
    fields = Document.__struct_fields__
    given = [it.name for it in node.entries]
    if any(it in Scenario.__struct_fields__ for it in given):
        return any(it in fields for it in given)
    return any(names.nearest(it, fields) for it in given)


def _twins(scenarios: Iterable[Placed[Scenario]]) -> Iterator[Mistake]:
    """Every scenario whose id another before it has."""
    seen: dict[str, Placed[Scenario]] = {}
    for it in scenarios:
        first = seen.setdefault(it.value.id, it)
        if first is not it:
            yield _second(it, first, f"there are two scenarios {shown(it.value.id)}")


def _second_mocks(mocks: Sequence[Placed[Mock]]) -> Iterator[Mistake]:
    for it in mocks[1:]:
        yield _second(it, mocks[0], "there are two mocks, and only one can answer")


def _second(it: Placed[object], first: Placed[object], what: str) -> Mistake:
    place = f"line {first.line}" if first.file == it.file else f"{first.file}:{first.line}"
    return Mistake(it.file, it.line, it.column, it.path, f"{what}: the first is in {place}")
