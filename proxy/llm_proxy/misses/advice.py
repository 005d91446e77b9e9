"""Finds the match rules with which a near miss would match."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from llm_proxy.dialects import Dialect
from llm_proxy.diff.documents import PLAIN_NAME, RequestDifference, find_differences
from llm_proxy.matching import (
    KeyDocument,
    NormaliserRule,
    NormalizedDocument,
    RuleSet,
    document_key,
)
from llm_proxy.matching.normalisers import NORMALISERS
from llm_proxy.matching.normalisers.ignore import RemovalTree, add_ignored_path, without_ignored
from llm_proxy.matching.rules import ApplyRule

_QUOTABLE_NAME: Final = re.compile(r"""[^"'\\]+""")
"""Member names that a quoted JSONPath step can hold without escapes."""
_MAX_PATH_CHARS: Final = 200
"""Maximum length of a JSONPath in a suggested rule."""
MAX_ADVISED_DIFFERENCES: Final = 8
"""With more differences it is a different request, whatever rules could ignore."""
_MAX_TRIED_DIFFERENCES: Final = 200
"""With more differences no normalisers are tried."""
_MAX_TRIED_BODY_BYTES: Final = 4 * 1024 * 1024
"""With a larger body no normalisers are tried."""

_RECORD_INSTEAD: Final = "record it instead"
_MODEL_WARNING: Final = f"another model gives other answers: {_RECORD_INSTEAD}"
_STREAM_WARNING: Final = (
    f"a stream would answer what asked for none, or the other way round: {_RECORD_INSTEAD}"
)
_PROMPT_WARNING: Final = f"what is asked would not count: {_RECORD_INSTEAD}"


@dataclass(frozen=True, slots=True)
class DifferenceRemedy:
    """A rule that ignores one difference."""

    rule: str = ""
    """A `--normalise` argument; empty if no rule ignores the difference."""
    warning: str = ""
    """Why the rule is probably wrong; empty if it may be right."""


@dataclass(frozen=True, slots=True)
class MissAdvice:
    """The rules that would make a cassette match a request."""

    remedies: tuple[DifferenceRemedy, ...]
    """One per difference, in the same order."""
    rules: tuple[str, ...]
    """With all of these the cassette matches (verified); empty if recording is the right remedy.

    The rules of the run come first, because rules on the command line replace them.
    """


def miss_advice(
    requested: KeyDocument,
    stored: KeyDocument,
    differences: Sequence[RequestDifference],
    rules: RuleSet,
) -> MissAdvice:
    """Remedies for the differences of two documents to which `rules` are already applied."""
    if rules.is_exact:
        return MissAdvice((DifferenceRemedy(),) * len(differences), ())
    normaliser_by_path = _normaliser_by_path(requested, stored, differences, rules)
    remedies: list[DifferenceRemedy] = []
    functions: dict[str, ApplyRule] = {}
    for difference in differences:
        if (normaliser := normaliser_by_path.get(difference.path)) is not None:
            functions[normaliser.name] = normaliser.normalize_document
            remedies.append(DifferenceRemedy(normaliser.name))
            continue
        remedies.append(remedy := _ignore_remedy(difference, requested.dialect))
        if remedy.rule:
            functions[remedy.rule] = _make_ignore_function(difference.path_steps)
    if len(differences) > MAX_ADVISED_DIFFERENCES or any(
        remedy.warning or not remedy.rule for remedy in remedies
    ):
        return MissAdvice(tuple(remedies), ())
    for function in functions.values():
        requested, stored = (function(document).document for document in (requested, stored))
    suggested = (*(rule.option_text for rule in rules.rules), *functions)
    keys_match = document_key(requested) == document_key(stored)
    return MissAdvice(tuple(remedies), suggested if keys_match else ())


def _normaliser_by_path(
    requested: KeyDocument,
    stored: KeyDocument,
    differences: Sequence[RequestDifference],
    rules: RuleSet,
) -> dict[str, NormaliserRule]:
    """By path of a difference, the first argumentless normaliser that removes it."""
    normaliser_by_path: dict[str, NormaliserRule] = {}
    body_size = max(len(requested.canonical_body()), len(stored.canonical_body()))
    if len(differences) > _MAX_TRIED_DIFFERENCES or body_size > _MAX_TRIED_BODY_BYTES:
        return normaliser_by_path
    names_in_use = {step.name for rule in rules.rules for step in (rule, *rule.preset_rules)}
    for definition in NORMALISERS.values():
        if definition.argument_description or definition.name in names_in_use:
            continue
        rule = definition.make_rule()
        remaining = find_differences(
            rule.normalize_document(requested).document, rule.normalize_document(stored).document
        ).differences
        for difference in differences:
            if not any(_paths_overlap(difference.path, other.path) for other in remaining):
                normaliser_by_path.setdefault(difference.path, rule)
    return normaliser_by_path


def _paths_overlap(one: str, other: str) -> bool:
    short, long = sorted((one, other), key=len)
    return long.startswith(short) and long[len(short) :][:1] in {"", ".", "["}


def _ignore_remedy(difference: RequestDifference, dialect: Dialect) -> DifferenceRemedy:
    """An `ignore` rule; none outside of a JSON body, or if the path needs escapes."""
    path = "$"
    for part in difference.path_steps:
        if isinstance(part, int):
            path += f"[{part}]"
        elif PLAIN_NAME.fullmatch(part):
            path += f".{part}"
        elif _QUOTABLE_NAME.fullmatch(part) and part.isprintable():
            path += f'["{part}"]'
        else:
            return DifferenceRemedy()
    if not difference.path_steps or len(path) > _MAX_PATH_CHARS:
        return DifferenceRemedy()
    match difference.path_steps[0]:
        case "model":
            warning = _MODEL_WARNING
        case "stream":
            warning = _STREAM_WARNING
        case name if name in dialect.prompt_fields:
            warning = _PROMPT_WARNING
        case _:
            warning = ""
    return DifferenceRemedy(f"ignore={path}", warning)


def _make_ignore_function(parts: tuple[str | int, ...]) -> ApplyRule:
    """The document transformation of an `ignore` rule with this path, without its parser."""
    removals: RemovalTree = {}
    add_ignored_path(removals, parts)
    return lambda document: NormalizedDocument(
        replace(document, body=without_ignored(document.body, removals))
    )
