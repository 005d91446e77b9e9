"""Presets: rules for clients whose requests differ from run to run.

Of the values that a client announces, such as the date, only the announced value is ignored: a
question about a date is still another question for another date.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

import msgspec

from llm_proxy.cassette import CassetteMeta
from llm_proxy.matching.keys import (
    KeyDocument,
    NormaliserRule,
    NormalizedDocument,
    RuleSet,
    is_keyed_by,
)
from llm_proxy.matching.normalisers import (
    CALL_IDS,
    PATHS,
    UUIDS,
    map_body_texts,
    text_change,
)
from llm_proxy.matching.tool_results import (
    RESULT_TIMES_RULE,
    RUN_VALUES_RULE,
    map_tool_results,
)
from llm_proxy.turns import Json

TEST_PRESET: Final = "llm-pytest"
"""The preset of tests that a model runs."""

_MONTH: Final = (
    r"(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?"
    r"|Sep(?:t|tember)?|Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?)\.?"
)
_WEEKDAY: Final = r"(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{0,6},? )?"
_CLOCK: Final = (
    r"[0-9]{1,2}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]{1,9})?)?(?:[ \u202f]?(?:[APap][Mm]\b|[ap]\.m\.))?"
    r"(?: ?(?:Z\b|UTC\b|GMT\b|[+-][0-9]{2}:?[0-9]{2}\b)){0,2}"
)
_DATE: Final = (
    rf"{_WEEKDAY}(?:[0-9]{{4}}[-/][0-9]{{1,2}}[-/][0-9]{{1,2}}"
    r"|[0-9]{1,2}[/.][0-9]{1,2}[/.][0-9]{2,4}"
    rf"|{_MONTH} [0-9]{{1,2}}(?:st|nd|rd|th)?,? [0-9]{{4}}"
    rf"|[0-9]{{1,2}}(?:st|nd|rd|th)? {_MONTH},? [0-9]{{4}})"
)
_NOW: Final = rf"(?:{_DATE}(?:(?:T|,? (?:at )?){_CLOCK})?|{_CLOCK}(?:,? (?:on )?{_DATE})?)"
_ANNOUNCED: Final = (
    r"\b(?:[Tt]oday(?:['\u2019]s [Dd]ate)?|[Tt]he (?:date|time)"
    r"|(?:[Cc]urrent|[Ss]ystem)[ _]?(?:[Dd]ate and time|[Dd]ate[ _]?[Tt]ime|[Dd]ate|[Tt]ime))"
    r"(?: today| now)?(?: \([^()\n]{1,40}\))?[`'\"]?(?: is|:|=|>)(?: now)?[ \t]{0,9}[`'\"*]{0,3}"
)
_ENDED: Final = r"(?![0-9]|[.:][0-9])"
"""Not followed by more digits: that would be a version, an address or a decimal number."""
_ENVIRONMENT: Final = re.compile(
    r"(# Environment\nYou have been invoked in the following environment:[ ]{0,2}\n)"
    r"(?:[ \t]{0,8}- [^\n]*(?:\n|\Z))+"
)
"""Claude Code's list of what it knows about the machine and the working folder."""
_BILLING_HEADER: Final = "x-anthropic-billing-header:"
"""Begins a block of Claude Code's system prompt."""


def _preset(name: str, version: int, *client_rules: NormaliserRule) -> NormaliserRule:
    """All rules that one client needs, as one rule.

    `client_rules` are for values that only this client sends.  `version` is incremented whenever
    the preset normalises a document differently than before.
    """
    return _combined(
        name,
        version,
        CURRENT_DATE_RULE,
        *client_rules,
        PATHS.make_rule(),
        CALL_IDS.make_rule(),
        UUIDS.make_rule(),
    )


def _combined(name: str, version: int, *rules: NormaliserRule) -> NormaliserRule:
    normalize_document = RuleSet(rules).normalize_document
    return NormaliserRule(name, version, normalize_document, preset_rules=rules)


def _announced_value_rule(
    name: str,
    *patterns: str,
    map_document: Callable[[KeyDocument, Callable[[str], str]], KeyDocument] = map_body_texts,
) -> NormaliserRule:
    """A rule that replaces each match after its first group by `<name>`.

    The patterns must search a text of any length in linear time.
    """
    compiled_patterns = [re.compile(pattern) for pattern in patterns]

    def replace_values(text: str) -> str:
        for pattern in compiled_patterns:
            text = pattern.sub(lambda found: f"{found[1]}<{name}>", text)
        return text

    return NormaliserRule(
        name, 2, lambda document: NormalizedDocument(map_document(document, replace_values))
    )


def _map_result_texts(document: KeyDocument, change: Callable[[str], str]) -> KeyDocument:
    """The document with the texts of tool results mapped."""
    return map_tool_results(document, text_change(change))


def _leave_out_client(document: KeyDocument) -> NormalizedDocument:
    """The document without what Claude Code says about itself: no metadata, no beta features."""
    headers = tuple(header for header in document.headers if header[0] != "anthropic-beta")
    body = document.body
    if document.body_kind == "json" and isinstance(body, dict):
        body = {name: value for name, value in body.items() if name != "metadata"}
        if isinstance(thinking := body.get("thinking"), dict):
            # It depends on whether the client shows what happens.
            body["thinking"] = {name: each for name, each in thinking.items() if name != "display"}
        if isinstance(system := body.get("system"), list):
            body["system"] = [block for block in system if not _is_billing_header(block)]
    document = replace(document, headers=headers, body=body)
    return NormalizedDocument(
        map_body_texts(
            document, lambda text: _ENVIRONMENT.sub(lambda found: f"{found[1]}<environment>", text)
        )
    )


def _is_billing_header(block: Json) -> bool:
    return isinstance(block, dict) and str(block.get("text")).startswith(_BILLING_HEADER)


CURRENT_DATE_RULE: Final = _announced_value_rule("today", rf"({_ANNOUNCED}){_NOW}{_ENDED}")
"""Ignores an announced current date and time: `Today's date is 2026-11-22`."""

_LINE: Final = r"\n ?-? ?"
_PLATFORM: Final = r"(?:^|\n) ?-? ?Platform: [^\r\n]{1,60}"
"""The line above shell and OS version in Claude Code's environment block."""
_SHELL: Final = rf"(?:{_LINE}Shell: [^\r\n]{{1,200}})?"
_LINES_ABOVE: Final = r"(?:(?:Chunk ID|Exit code|Process exited with code):? [^\r\n]{1,60}\n){0,3}"
"""Lines that may precede the wall time above the output of a command of Codex."""

_ALL_PRESETS: Final = (
    # Claude Code sends the date, the machine and local folders to the model.
    _preset(
        "claude-code",
        2,
        _announced_value_rule(
            "machine",
            rf"({_PLATFORM}{_LINE}Shell: )[^\r\n]{{1,200}}",
            rf"({_PLATFORM}{_SHELL}{_LINE}OS Version: )[^\r\n]{{1,200}}",
        ),
    ),
    # Codex CLI sends the date, the machine, random chunk ids and durations of commands.
    _preset(
        "codex",
        3,
        _announced_value_rule("machine", r"(<(?:shell|timezone)>)[^<>\r\n]{1,100}"),
        _announced_value_rule(
            "chunk", r"\A(Chunk ID: )[0-9a-f]{1,32}\b", map_document=_map_result_texts
        ),
        _announced_value_rule(
            "duration",
            rf"\A({_LINES_ABOVE}Wall time: )[0-9.]{{1,20}} seconds",
            map_document=_map_result_texts,
        ),
    ),
    # These generate ids of messages and calls, and apps send the date.
    _preset("langchain", 2),
    _preset("pydantic-ai", 2),
    _preset("ai-sdk", 2),
    # Tests that a model runs: what differs in each run of its tools, and in Claude Code itself.
    # Claude Code's list of the machine is left out last: it announces the working folder.
    _combined(
        TEST_PRESET,
        1,
        CURRENT_DATE_RULE,
        PATHS.make_rule(),
        CALL_IDS.make_rule(),
        RUN_VALUES_RULE,
        RESULT_TIMES_RULE,
        NormaliserRule("client", 1, _leave_out_client),
    ),
)
PRESETS: Final[Mapping[str, NormaliserRule]] = {preset.name: preset for preset in _ALL_PRESETS}
"""All presets by name."""


def needs_rekeying(meta: CassetteMeta, rules: RuleSet) -> bool:
    """Whether `rekey` would change a file: it was keyed by other rules.

    Tests that a model runs add their preset to the rules of the run.
    """
    of_run = tuple(rule for rule in meta.match_rules if not rule.startswith(f"{TEST_PRESET}@"))
    return not is_keyed_by(msgspec.structs.replace(meta, match_rules=of_run), rules)
