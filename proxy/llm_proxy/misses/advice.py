"""Finds the rules by which a cassette would answer a request that it narrowly misses."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from llm_proxy.diff.json_leaves import RequestDifference
from llm_proxy.matching import KeyDocument, MatchRule, NormalizedDocument, RuleSet, document_key
from llm_proxy.matching.normalisers import NORMALISERS
from llm_proxy.matching.normalisers.ignore import Gone, mark_ignored, without_ignored
from llm_proxy.matching.rules import Apply
from llm_proxy.misses.document_diff import list_differences
from llm_proxy.misses.prompt_fields import CONVERSATION

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
class DifferenceRemedy:
    """What would make one difference not count."""

    rule: str = ""
    """As `--normalise` takes it; empty where no rule does."""
    warning: str = ""
    """Why that is hardly what is wanted."""


@dataclass(frozen=True, slots=True)
class MissAdvice:
    """What would make a cassette answer."""

    remedies: tuple[DifferenceRemedy, ...]
    """One for each difference, in their order."""
    rules: tuple[str, ...]
    """By all of these it would answer, which was tried; none where recording is right.

    First come those of the run: what is given on the command line takes their place.
    """


def miss_advice(
    key_document: KeyDocument,
    stored: KeyDocument,
    found: Sequence[RequestDifference],
    rules: RuleSet,
) -> MissAdvice:
    """What helps against these differences of two documents, to which `rules` were applied."""
    if rules.is_exact:
        return MissAdvice((DifferenceRemedy(),) * len(found), ())
    overlooked = _remedies_by_normaliser(key_document, stored, found, rules)
    remedies = tuple(
        DifferenceRemedy(overlooked[request_difference.path])
        if request_difference.path in overlooked
        else _ignore_remedy(request_difference)
        for request_difference in found
    )
    if any(remedy.warning or not remedy.rule for remedy in remedies):
        return MissAdvice(remedies, ())
    if len(found) > MOST:
        return MissAdvice(remedies, ())
    wanted = tuple(dict.fromkeys(remedy.rule for remedy in remedies))
    plain = {
        argumentless_normaliser.name: argumentless_normaliser.apply
        for argumentless_normaliser in _argumentless_normalisers(rules)
    }
    ignored = {
        f"ignore={_jsonpath_of(request_difference.parts)}": _ignore_steps(request_difference.parts)
        for request_difference in found
    }
    steps = [plain.get(text) or ignored[text] for text in wanted]
    helps = _key_after_steps(key_document, steps) == _key_after_steps(stored, steps)
    held = tuple(rule.option_text for rule in rules.rules)
    return MissAdvice(remedies, (*held, *wanted) if helps else ())


def _remedies_by_normaliser(
    key_document: KeyDocument,
    stored: KeyDocument,
    found: Sequence[RequestDifference],
    rules: RuleSet,
) -> dict[str, str]:
    """The differences by path that a normaliser without an argument overlooks, and its name."""
    helped: dict[str, str] = {}
    if (
        len(found) > _TRIED
        or max(len(key_document.serialized_body()), len(stored.serialized_body())) > _LARGEST
    ):
        return helped
    for rule in _argumentless_normalisers(rules):
        left = list_differences(rule.apply(key_document).document, rule.apply(stored).document)
        still = tuple(request_difference.path for request_difference in left)
        for request_difference in found:
            if not any(_paths_overlap(request_difference.path, path) for path in still):
                helped.setdefault(request_difference.path, rule.name)
    return helped


def _argumentless_normalisers(rules: RuleSet) -> Iterator[MatchRule]:
    held = {step.name for rule in rules.rules for step in (rule, *rule.steps)}
    return (
        normaliser.make_rule()
        for normaliser in NORMALISERS.values()
        if not normaliser.argument_name and normaliser.name not in held
    )


def _paths_overlap(one: str, other: str) -> bool:
    short, long = sorted((one, other), key=len)
    return long.startswith(short) and long[len(short) :][:1] in {"", ".", "["}


def _ignore_remedy(request_difference: RequestDifference) -> DifferenceRemedy:
    path = _jsonpath_of(request_difference.parts)
    if not path:
        return DifferenceRemedy()
    match request_difference.parts[0]:
        case "model":
            caution = _MODEL
        case "stream":
            caution = _STREAM
        case name if name in CONVERSATION:
            caution = _ASKED
        case _:
            caution = ""
    return DifferenceRemedy(f"ignore={path}", caution)


def _jsonpath_of(parts: Sequence[str | int]) -> str:
    """Steps as a JSONPath; empty where a name has what would have to be escaped."""
    path = "$"
    for part in parts:
        if isinstance(part, int):
            path += f"[{part}]"
        elif _PLAIN.fullmatch(part):
            path += f".{part}"
        elif _QUOTABLE.fullmatch(part) and part.isprintable():
            path += f'["{part}"]'
        else:
            return ""
    return path if parts and len(path) <= _LONGEST else ""


def _ignore_steps(parts: tuple[str | int, ...]) -> Apply:
    """What `ignore` does with this path."""
    gone: Gone = {}
    mark_ignored(gone, parts)

    def apply(document: KeyDocument) -> NormalizedDocument:
        return NormalizedDocument(replace(document, body=without_ignored(document.body, gone)))

    return apply


def _key_after_steps(document: KeyDocument, steps: Sequence[Apply]) -> str:
    """The key of a document after these, in the order in which they would be given."""
    for apply in steps:
        document = apply(document).document
    return document_key(document)
