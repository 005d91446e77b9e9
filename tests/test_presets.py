"""Presets ignore the dates, folders and random ids of their client, and nothing of its prompt."""

from __future__ import annotations

import json
from typing import Any, Final

from case_tables import each_row
from linear_time import assert_linear
from llm_proxy.cassette import StoredRequest
from llm_proxy.matching import KeyDocument, key_document, request_key
from llm_proxy.matching.option_grammar import parse_rules
from llm_proxy.matching.presets import CURRENT_DATE_RULE, PRESETS

each_preset = each_row("preset", PRESETS)

FIRST_RUN: Final[dict[str, Any]] = {
    "model": "gpt-5",
    "stream": True,
    "temperature": 1,
    "tools": [{"type": "function", "function": {"name": "read", "description": "Read a file"}}],
    "messages": [
        {"role": "system", "content": "Today's date is 2026-11-22.\nWorking directory: /srv/a"},
        {"role": "user", "content": "What happened on 2024-05-05? See notes.txt"},
        {"role": "assistant", "tool_calls": [{"id": "call_12345", "function": {"name": "read"}}]},
        {"role": "tool", "tool_call_id": "call_12345", "content": "/srv/a/notes.txt"},
    ],
}
SECOND_RUN: Final[dict[str, Any]] = FIRST_RUN | {
    "messages": [
        {"role": "system", "content": "Today's date is 2026-12-24.\nWorking directory: /opt/b"},
        FIRST_RUN["messages"][1],
        {"role": "assistant", "tool_calls": [{"id": "call_67890", "function": {"name": "read"}}]},
        {"role": "tool", "tool_call_id": "call_67890", "content": "/opt/b/notes.txt"},
    ]
}


def stored_request(body: dict[str, Any]) -> StoredRequest:
    return StoredRequest("POST", "/v1/chat/completions", "", (), json.dumps(body).encode())


def with_content(number: int, content: str) -> dict[str, Any]:
    """The second run with a different text in one of its messages."""
    messages = list(SECOND_RUN["messages"])
    messages[number] = messages[number] | {"content": content}
    return SECOND_RUN | {"messages": messages}


@each_preset
def test_another_day_folder_and_id_have_the_key_of_the_first(preset: str) -> None:
    rules = parse_rules([preset])

    assert request_key("openai", stored_request(FIRST_RUN), rules) == request_key(
        "openai", stored_request(SECOND_RUN), rules
    )


@each_preset
@each_row(
    "other",
    [
        with_content(1, "What happened on 2024-05-05? See others.txt"),
        with_content(1, "What happened on 2023-05-05? See notes.txt"),
        with_content(0, "Be brief. Today's date is 2026-12-24.\nWorking directory: /opt/b"),
        with_content(3, "/opt/b/others.txt"),
        SECOND_RUN | {"model": "gpt-5-mini"},
        SECOND_RUN | {"stream": False},
        SECOND_RUN | {"temperature": 0},
        SECOND_RUN | {"tools": []},
        SECOND_RUN | {"tools": [{"type": "function", "function": {"name": "read"}}]},
        SECOND_RUN | {"messages": SECOND_RUN["messages"][::-1]},
    ],
    ids=[
        "question", "another day in it", "instructions", "result", "model", "stream",
        "temperature", "tools", "a tool's description", "order",
    ],
)  # fmt: skip
def test_the_prompt_counts(preset: str, other: dict[str, Any]) -> None:
    rules = parse_rules([preset])

    assert request_key("openai", stored_request(FIRST_RUN), rules) != request_key(
        "openai", stored_request(other), rules
    )


@each_row(
    ("announcement", "after"),
    [
        ("Today's date is 2026-11-22.", "Today's date is <today>."),
        ("Today is Sunday, November 22, 2026.", "Today is <today>."),
        ("<current_date>2026-11-22</current_date>", "<current_date><today></current_date>"),
        ('{"current_date": "2026-11-22"}', '{"current_date": "<today>"}'),
        ("The date is 22 Nov 2026!", "The date is <today>!"),
        ("Current time: 2026-11-22T13:05:09.123+00:00 ok", "Current time: <today> ok"),
        ("System Time: 2026-11-22 13:05", "System Time: <today>"),
        ("The current date and time (UTC) is 11/22/2026, 1:05:09 PM.",
         "The current date and time (UTC) is <today>."),
        ("Released on 2024-05-05", "Released on 2024-05-05"),
        ("today is version 4.5.6", "today is version 4.5.6"),
        ("It is now: 2026-11-22", "It is now: 2026-11-22"),
        ("The time is 10:256", "The time is 10:256"),
        ("The time is 10:25.", "The time is <today>."),
        ("The date is 10.0.10.5", "The date is 10.0.10.5"),
        ("Today is 1.2.30.4 or so", "Today is 1.2.30.4 or so"),
        ("The date is 2026-11-223", "The date is 2026-11-223"),
    ],
)  # fmt: skip
def test_only_the_current_date_is_ignored(announcement: str, after: str) -> None:
    document = CURRENT_DATE_RULE.normalize_document(_document(announcement)).document

    assert document.body == [after]
    assert CURRENT_DATE_RULE.normalize_document(document).document == document


def _document(text: str) -> KeyDocument:
    return key_document("x", StoredRequest("POST", "/x", "", (), json.dumps([text]).encode()))


@each_preset
@each_row(
    "text",
    [
        "Today ", "Today is ", "The date (", "The time is now  ", "Today is Mon", "Current date: 1",
        "Today is 1:11 PM", "current_date>'", "OS Version: ", "Chunk ID: ", "\nWall time: 1",
        "<shell>", "<timezone>a", "\nPlatform: x", "\nPlatform: x\nShell: y",
    ],
)  # fmt: skip
def test_hostile_texts_take_no_longer_than_others(preset: str, text: str) -> None:
    rules = parse_rules([preset])

    assert_linear(
        lambda size: rules.normalize_document(_document(text * (size // len(text)))), 16_000
    )
