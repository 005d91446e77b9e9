"""Reports misses: values for error pages and journals, text for exceptions and logs.

A difference has a remedy if a match rule ignores it; where every difference has one, the report
suggests the rules with which the cassette would match.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import orjson

from llm_proxy.cassette.model import DEFAULT_SESSION
from llm_proxy.dialects import Dialect
from llm_proxy.diff.documents import (
    RequestDifference,
    common_prefix_length,
    find_differences,
    format_word_diff,
)
from llm_proxy.display import PLAIN_NAME, count_with_noun, folder_name, format_percent
from llm_proxy.errors import CassetteError, Miss, printable_excerpt
from llm_proxy.matching import KeyDocument, NormaliserRule, RuleSet
from llm_proxy.matching.keys import ApplyRule
from llm_proxy.matching.normalisers import (
    NORMALISERS,
    RemovalTree,
    add_ignored_path,
    without_ignored,
)
from llm_proxy.matching.presets import TEST_PRESET
from llm_proxy.miss_report import MissDifference, MissedRequest, MissReport, NearestCassette
from llm_proxy.misses.nearest import RankedCandidate
from llm_proxy.routing import RoutedRequest

_QUOTABLE_NAME: Final = re.compile(r"""[^"'\\]+""")
"""Member names that a quoted JSONPath step can hold without escapes."""
_MAX_ADVISED_DIFFERENCES: Final = 8
"""With more differences it is a different request, whatever rules could ignore."""
_MAX_TRIED_DIFFERENCES: Final = 200
"""With more differences no normalisers are tried."""
_MAX_TRIED_BODY_BYTES: Final = 4 * 1024 * 1024
"""With a larger body no normalisers are tried."""
_MAX_PATH_CHARS: Final = 200
"""Maximum length of a path or a model name in a report, and of a JSONPath in a suggested rule."""
_SHORT_VALUE_MAX_CHARS: Final = 60
"""Up to this length both values are shown in full, without a word diff."""
_LEADING_CONTEXT_DIVISOR: Final = 3
"""A truncated value keeps `max_chars` divided by this before the first difference."""
_MAX_SHORT_DIFFERENCES: Final = 3
"""Maximum number of differences in an exception message, if they fit."""
_MAX_DIFFERENCES_CHARS: Final = 280
"""Maximum length of these differences together; the first is always included."""
_MAX_RULES_CHARS: Final = 130
"""Maximum length of the suggested rules in an exception message; longer ones are left out."""
_MAX_VALUE_CHARS: Final = 60
"""Maximum length of a value in a line of text."""
_MAX_SHORT_DIFF_CHARS: Final = 190
"""Maximum length of a word diff in an exception message."""
_MAX_NAME_CHARS: Final = 100
"""Maximum length of a path, a model name or a session name in a line of text."""
_MAX_FILE_CHARS: Final = 250
"""Maximum length of a file path."""
_MAX_LINE_CHARS: Final = 700
"""Approximate maximum length of a line of the detailed text."""


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """Size limits of a miss report, and the command that it advises."""

    max_differences: int = 20
    max_value_chars: int = 300
    """Maximum length of one value."""
    max_diff_chars: int = 600
    """Approximate maximum length of one word diff."""
    record_command: str = "llm-proxy record"
    """The command that records a missing request."""

    @property
    def record_advice(self) -> str:
        """The advice to record the request."""
        return f"record the request with {self.record_command}"


STORED_LIMITS: Final = ReportOptions()
"""Limits for error pages and journals; a journal keeps a thousand misses."""
FULL_LIMITS: Final = ReportOptions(10_000, 100_000, 100_000)
"""Limits for a single miss that is shown in full on demand."""


def no_cassette_miss(
    routed: RoutedRequest,
    nearest: RankedCandidate | None,
    candidate_count: int,
    library_path: str,
    unplayable_reason: str = "",
    limits: ReportOptions = STORED_LIMITS,
) -> Miss:
    """The miss of a request that no cassette matches.

    `nearest` is the nearest of the library's `candidate_count` cassettes; None if none is
    comparable.
    `unplayable_reason` is why the nearest cassette is not played although nothing differs.
    """
    missed = _missed_request(routed)
    summary = request_summary(routed)
    library_path = printable_excerpt(folder_name(library_path), _MAX_FILE_CHARS)
    key_and_session = f"key {routed.key[:16]}, session {routed.session}"
    if nearest is None and not candidate_count:
        reason = f"no cassette matches {summary}: the library {library_path} is empty"
        detail = f"{reason}; {key_and_session}"
        return Miss(
            f"{reason}; {limits.record_advice}", detail, MissReport(missed, "empty", detail)
        )
    if nearest is None:
        cassettes = count_with_noun(candidate_count, "cassette")
        no_similar = f"{library_path} contains {cassettes}, but no similar request"
        detail = f"no cassette matches {summary}: {no_similar}; {key_and_session}"
        return Miss(
            f"no cassette matches {summary}: {no_similar}; {limits.record_advice}",
            detail,
            MissReport(missed, "no_similar", detail, compared=candidate_count),
        )
    nearest_cassette, rules = _nearest_report(nearest, routed.match_rules, limits)
    if not nearest_cassette.differences:
        reason = unplayable_reason
        if nearest_cassette.session not in (routed.session, DEFAULT_SESSION):
            session = printable_excerpt(nearest_cassette.session, _MAX_NAME_CHARS)
            reason = (
                f"belongs to session {session}, not to session {routed.session}; record the "
                f"request again in session {routed.session}, or rename the folder @{session} to "
                f"@{routed.session} if the session or its test was renamed"
            )
        file = printable_excerpt(nearest_cassette.file, _MAX_FILE_CHARS)
        detail = f"no cassette can be replayed for {summary}: {file} matches, but {reason}"
        report = MissReport(missed, "unplayable", detail, nearest_cassette, candidate_count)
        return Miss(detail, detail, report)
    headline = f"no cassette matches {summary}; {key_and_session}"
    detail = "\n".join(
        [headline, *_nearest_detail_lines(nearest_cassette, rules, limits.record_advice)]
    )
    return Miss(
        _exception_message(summary, nearest_cassette, rules, limits.record_advice),
        detail,
        MissReport(missed, "differs", detail, nearest_cassette, candidate_count, rules),
    )


def no_takes_left_miss(routed: RoutedRequest, take_count: int, request_number: int) -> Miss:
    """The miss of a request whose takes have all been played."""
    recorded_takes = count_with_noun(take_count, "take is", "takes are")
    reason = (
        f"no take is left for {request_summary(routed)}: this is request {request_number} with "
        f"the same key, but only {recorded_takes} recorded"
    )
    detail = f"{reason}; key {routed.key[:16]}, session {routed.session}"
    report = MissReport(_missed_request(routed), "no_takes_left", detail)
    return Miss(f"{reason}; record the request again, or use --after-last repeat", detail, report)


def unusable_cassette_report(routed: RoutedRequest, error: CassetteError) -> MissReport:
    """The report of a request whose cassette is corrupt or invalid."""
    nearest = NearestCassette(error.file, routed.session, 1.0)
    return MissReport(_missed_request(routed), "unusable", str(error), nearest)


def _missed_request(routed: RoutedRequest) -> MissedRequest:
    return MissedRequest(
        method=routed.request.method,
        path=printable_excerpt(routed.stored_request.path, _MAX_PATH_CHARS),
        model=printable_excerpt(routed.model, _MAX_PATH_CHARS),
        provider=routed.provider,
        dialect=routed.dialect.name,
        session=routed.session,
        key=routed.key[:16],
    )


def _nearest_report(
    candidate: RankedCandidate, rules: RuleSet, limits: ReportOptions
) -> tuple[NearestCassette, tuple[str, ...]]:
    """The nearest cassette with its differences, and the rules that would make it match."""
    found, cassette = candidate.differences, candidate.cassette
    remedies, suggested_rules = _find_remedies(candidate, rules)
    shown = tuple(
        _miss_difference(difference, *remedy, limits)
        for difference, remedy in zip(
            found.differences[: limits.max_differences], remedies, strict=False
        )
    )
    omitted_count = len(found.differences) + found.further_count - len(shown)
    nearest = NearestCassette(
        cassette.file, cassette.meta.session, candidate.similarity, shown, omitted_count
    )
    return nearest, suggested_rules


def _find_remedies(
    candidate: RankedCandidate, rules: RuleSet
) -> tuple[list[tuple[str, str]], tuple[str, ...]]:
    """For each difference, a rule that ignores it, and why that is probably wrong; empty without.

    And the rules with all of which the cassette matches (verified); none if recording is the right
    remedy.  The rules of the run come first, because rules on the command line replace them.
    """
    requested, stored = candidate.requested_key_document, candidate.stored_key_document
    differences = candidate.differences.differences
    # A test that a model runs is recorded again: looser rules are refused.
    is_test = any(rule.name == TEST_PRESET for rule in rules.rules)
    if rules.is_exact or is_test:
        return [("", "")] * len(differences), ()
    normaliser_by_path = _normaliser_by_path(requested, stored, differences, rules)
    functions: dict[str, ApplyRule] = {}
    remedies: list[tuple[str, str]] = []
    for difference in differences:
        if (normaliser := normaliser_by_path.get(difference.path)) is not None:
            functions[normaliser.name] = normaliser.normalize_document
            remedies.append((normaliser.name, ""))
            continue
        rule, warning = _ignore_remedy(difference, requested.dialect)
        remedies.append((rule, warning))
        if rule:
            removals: RemovalTree = {}
            add_ignored_path(removals, difference.path_steps)
            functions[rule] = partial(without_ignored, removals)
    if len(differences) > _MAX_ADVISED_DIFFERENCES or any(
        warning or not rule for rule, warning in remedies
    ):
        return remedies, ()
    for function in functions.values():
        requested, stored = (function(document).document for document in (requested, stored))
    suggested_rules = (*(rule.option_text for rule in rules.rules), *functions)
    return remedies, suggested_rules if requested.compute_key() == stored.compute_key() else ()


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


def _ignore_remedy(difference: RequestDifference, dialect: Dialect) -> tuple[str, str]:
    """An `ignore` rule, and why it is probably wrong.

    There is none outside of a JSON body, or if the path needs escapes.
    """
    path = "$"
    for part in difference.path_steps:
        if isinstance(part, int):
            path += f"[{part}]"
        elif PLAIN_NAME.fullmatch(part):
            path += f".{part}"
        elif _QUOTABLE_NAME.fullmatch(part) and part.isprintable():
            path += f'["{part}"]'
        else:
            return "", ""
    if not difference.path_steps or len(path) > _MAX_PATH_CHARS:
        return "", ""
    match difference.path_steps[0]:
        case "model":
            warning = (
                "this rule would replay the response of another model; record the request instead"
            )
        case "stream":
            warning = (
                "this rule would mix streaming and non-streaming responses; "
                "record the request instead"
            )
        case name if name in dialect.prompt_fields:
            warning = "this rule would ignore the prompt itself; record the request instead"
        case _:
            warning = ""
    return f"ignore={path}", warning


def _miss_difference(
    difference: RequestDifference, rule: str, warning: str, limits: ReportOptions
) -> MissDifference:
    requested, stored = difference.requested, difference.stored
    shown = _truncate_differing(requested, stored, limits.max_value_chars)
    word_diff = ""
    if requested and stored and max(len(requested), len(stored)) > _SHORT_VALUE_MAX_CHARS:
        word_diff = format_word_diff(
            _decode_json_string(stored), _decode_json_string(requested), limits.max_diff_chars
        )
    path = printable_excerpt(difference.path, _MAX_PATH_CHARS)
    return MissDifference(path, *shown, word_diff, rule, warning)


def _truncate_differing(left: str, right: str, max_chars: int) -> tuple[str, str]:
    """Both values cut to `max_chars`, keeping their first difference visible."""
    start = 0
    if max(len(left), len(right)) > max_chars:
        context_chars = max_chars // _LEADING_CONTEXT_DIVISOR
        start = max(0, common_prefix_length(left, right) - context_chars)
    first, second = (
        ("…" if start else "") + printable_excerpt(value[start : start + max_chars + 1], max_chars)
        for value in (left, right)
    )
    return first, second


def _decode_json_string(value: str) -> str:
    """The content of a JSON string; any other value unchanged."""
    try:
        text = orjson.loads(value)
    except ValueError:  # leaves outside of the body are not JSON
        return value
    return text if isinstance(text, str) else value


def request_summary(routed: RoutedRequest) -> str:
    """Method, path and model in one line."""
    model = printable_excerpt(routed.model, _MAX_NAME_CHARS)
    path = printable_excerpt(routed.stored_request.path, _MAX_NAME_CHARS)
    return f"{routed.request.method} {path}" + (f" ({model})" if model else "")


def format_normalise_options(rules: Sequence[str]) -> str:
    """Rules as `--normalise` options, quoted for a shell."""
    return " ".join(f"--normalise {shlex.quote(rule)}" for rule in rules)


def nearest_summary(nearest_cassette: NearestCassette) -> str:
    """The file and similarity of the nearest cassette, in one line."""
    similarity = format_percent(nearest_cassette.similarity)
    return f"{printable_excerpt(nearest_cassette.file, _MAX_FILE_CHARS)} ({similarity} similar)"


def difference_line(
    difference: MissDifference,
    max_value_chars: int = _MAX_VALUE_CHARS,
    max_diff_chars: int = _MAX_LINE_CHARS,
) -> str:
    """A difference in one line: its path and both values, or their word diff."""
    path = printable_excerpt(difference.path, _MAX_NAME_CHARS)
    if not difference.stored:
        requested = printable_excerpt(difference.requested, max_value_chars)
        return f"{path}: request has {requested}, cassette has no value"
    if not difference.requested:
        stored = printable_excerpt(difference.stored, max_value_chars)
        return f"{path}: request has no value, cassette has {stored}"
    if difference.diff and len(difference.diff) <= max_diff_chars:
        return f"{path}: {printable_excerpt(difference.diff, max_diff_chars)}"
    requested, stored = _truncate_differing(
        difference.requested, difference.stored, max_value_chars
    )
    return f"{path}: request has {requested}, cassette has {stored}"


def remedy_line(difference: MissDifference) -> str:
    """The rule that ignores a difference, in one line; empty if there is none."""
    if not difference.rule:
        return ""
    caution = f" ({difference.caution})" if difference.caution else ""
    return f"to ignore: {format_normalise_options([difference.rule])}{caution}"


def _nearest_detail_lines(
    nearest: NearestCassette, rules: Sequence[str], record_advice: str
) -> list[str]:
    """Lines: the nearest cassette, its differences, and the rules that would make it match."""
    lines = [f"nearest: {nearest_summary(nearest)}"]
    # With more differences, it is a different request.
    shows_rules = len(nearest.differences) + nearest.more <= _MAX_ADVISED_DIFFERENCES
    for difference in nearest.differences:
        lines.append(f"  {printable_excerpt(difference_line(difference), _MAX_LINE_CHARS)}")
        if shows_rules and (remedy := remedy_line(difference)):
            lines.append(f"  {printable_excerpt(f'  {remedy}', _MAX_LINE_CHARS)}")
    if nearest.more:
        lines.append(f"  and {nearest.more} more")
    options = format_normalise_options(rules)
    lines.append(f"to match the nearest cassette, use: {options}" if options else record_advice)
    return lines


def _exception_message(
    summary: str, nearest: NearestCassette, rules: Sequence[str], record_advice: str
) -> str:
    """One line, which SDKs show as the message of their exception."""
    first, *others = (
        difference_line(difference, max_diff_chars=_MAX_SHORT_DIFF_CHARS)
        for difference in nearest.differences[:_MAX_SHORT_DIFFERENCES]
    )
    shown = [first]
    for other in others:
        if sum(map(len, shown)) + len(other) <= _MAX_DIFFERENCES_CHARS:
            shown.append(other)
    differences = "; at ".join(shown)
    if more := len(nearest.differences) + nearest.more - len(shown):
        differences += f"; and at {count_with_noun(more, 'more path', 'more paths')}"
    if "[-" in differences or "{+" in differences:
        differences += " ([-cassette-] {+request+})"
    file = printable_excerpt(nearest.file, _MAX_FILE_CHARS)
    options = format_normalise_options(rules)
    alternative = "change the request"
    if options and len(options) <= _MAX_RULES_CHARS:
        noun = "difference" if len(nearest.differences) == 1 else "differences"
        alternative = f"ignore the {noun} with {options}"
    return (
        f"no cassette matches {summary}; nearest: {file}, which differs at {differences}; "
        f"{record_advice}, or {alternative}"
    )
