"""By which rules a cassette would answer a request that it misses by a little."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from llm_proxy.diff.json_leaves import Difference
from llm_proxy.matching import Document, Normalised, Rule, Rules, key_of
from llm_proxy.matching.normalisers import NORMALISERS
from llm_proxy.matching.normalisers.ignore import Gone, mark, without
from llm_proxy.matching.rules import Apply
from llm_proxy.misses.document_diff import differences
from llm_proxy.misses.question import CONVERSATION

_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_QUOTABLE: Final = re.compile(r"""[^"'\\]+""")
"""What can stand in a path between quotes as it is."""
_LONGEST: Final = 200
"""Characters of a path that somebody would paste."""
MOST: Final = 8
"""Differences from which on it is another request, whatever could be overlooked."""
_TRIED: Final = 200
"""Differences up to which rules are tried."""
_LARGEST: Final = 4 * 1024 * 1024
"""Bytes of a body on which rules are tried."""

_RECORD: Final = "record it instead"
_MODEL: Final = f"another model gives other answers: {_RECORD}"
_STREAM: Final = f"a stream would answer what asked for none, or the other way round: {_RECORD}"
_ASKED: Final = f"what is asked would not count: {_RECORD}"


@dataclass(frozen=True, slots=True)
class Remedy:
    """What would make one difference not count."""

    rule: str = ""
    """As `--normalise` takes it; empty where no rule does."""
    caution: str = ""
    """Why that is hardly what is wanted."""


@dataclass(frozen=True, slots=True)
class Advice:
    """What would make a cassette answer."""

    remedies: tuple[Remedy, ...]
    """One for each difference, in their order."""
    rules: tuple[str, ...]
    """By all of these it would answer, which was tried; none where recording is right.

    First come those of the run: what is given on the command line takes their place.
    """


def advice(asked: Document, stored: Document, found: Sequence[Difference], rules: Rules) -> Advice:
    """What helps against these differences of two documents, to which `rules` were applied."""
    if rules.is_exact:
        return Advice((Remedy(),) * len(found), ())
    overlooked = _overlooked(asked, stored, found, rules)
    remedies = tuple(
        Remedy(overlooked[it.path]) if it.path in overlooked else _ignored(it) for it in found
    )
    if any(it.caution or not it.rule for it in remedies):
        return Advice(remedies, ())
    if len(found) > MOST:
        return Advice(remedies, ())
    wanted = tuple(dict.fromkeys(it.rule for it in remedies))
    plain = {it.name: it.apply for it in _plain(rules)}
    ignored = {f"ignore={_spelled(it.parts)}": _ignoring(it.parts) for it in found}
    steps = [plain.get(it) or ignored[it] for it in wanted]
    helps = _key(asked, steps) == _key(stored, steps)
    held = tuple(it.setting for it in rules.each)
    return Advice(remedies, (*held, *wanted) if helps else ())


def _overlooked(
    asked: Document, stored: Document, found: Sequence[Difference], rules: Rules
) -> dict[str, str]:
    """The differences by path that a normaliser without an argument overlooks, and its name."""
    helped: dict[str, str] = {}
    if len(found) > _TRIED or max(len(asked.spelled()), len(stored.spelled())) > _LARGEST:
        return helped
    for rule in _plain(rules):
        left = differences(rule.apply(asked).document, rule.apply(stored).document)
        still = tuple(it.path for it in left)
        for it in found:
            if not any(_touches(it.path, path) for path in still):
                helped.setdefault(it.path, rule.name)
    return helped


def _plain(rules: Rules) -> Iterator[Rule]:
    """The normalisers that need no argument, and that do not hold yet."""
    held = {step.name for rule in rules.each for step in (rule, *rule.steps)}
    return (it.rule() for it in NORMALISERS.values() if not it.takes and it.name not in held)


def _touches(one: str, other: str) -> bool:
    """Whether two paths are one, or one leads into the other."""
    short, long = sorted((one, other), key=len)
    return long.startswith(short) and long[len(short) :][:1] in {"", ".", "["}


def _ignored(it: Difference) -> Remedy:
    """The rule that ignores this place."""
    path = _spelled(it.parts)
    if not path:
        return Remedy()
    match it.parts[0]:
        case "model":
            caution = _MODEL
        case "stream":
            caution = _STREAM
        case name if name in CONVERSATION:
            caution = _ASKED
        case _:
            caution = ""
    return Remedy(f"ignore={path}", caution)


def _spelled(parts: Sequence[str | int]) -> str:
    """Steps as a JSONPath; empty where a name has what would have to be escaped."""
    path = "$"
    for it in parts:
        if isinstance(it, int):
            path += f"[{it}]"
        elif _PLAIN.fullmatch(it):
            path += f".{it}"
        elif _QUOTABLE.fullmatch(it) and it.isprintable():
            path += f'["{it}"]'
        else:
            return ""
    return path if parts and len(path) <= _LONGEST else ""


def _ignoring(parts: tuple[str | int, ...]) -> Apply:
    """What `ignore` does with this path."""
    gone: Gone = {}
    mark(gone, parts)

    def apply(document: Document) -> Normalised:
        return Normalised(replace(document, body=without(document.body, gone)))

    return apply


def _key(document: Document, steps: Sequence[Apply]) -> str:
    """The key of a document after these, in the order in which they would be given."""
    for apply in steps:
        document = apply(document).document
    return key_of(document)
