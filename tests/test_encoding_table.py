"""What each dialect keeps and loses of rich turns, compared with `encoding_table.json`.

`PYTHONPATH=proxy:tests python tests/test_encoding_table.py` writes the table anew.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any, Final

import orjson
import pytest

from case_tables import each_row
from dialect_manners import MANNERS, Manner
from llm_proxy.errors import NotRepresentable
from llm_proxy.turns import (
    Citation,
    Failure,
    FinishReason,
    Media,
    Metadata,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
    Turn,
    Usage,
)

TABLE: Final = Path(__file__).with_name("encoding_table.json")

_CITATION: Final = Citation(
    "https://example.com", "Weather", "rain", (0, 2), (("source", "doc_1"), ("unheard_of", 1))
)
_TEXT: Final = Text("It rains.", (_CITATION,), (("logprobs", [0.5]), ("unheard_of", 2)))
_REASONING: Final = Reasoning("Hm.", "c2VhbA==", metadata=(("format", "plain"), ("id", "rs_1")))
_CALLS: Final = (
    ToolCall("call_a", "search", '{"city": "Zürich", "days": 1.0}', (("namespace", "web"),)),
    ToolCall("call_a", "search", ""),
)
_USAGE: Final = Usage(9, 5, 15, 3, 2, 1)
_METADATA: Final[Metadata] = (
    ("provider", "Acme"), ("service_tier", "flex"), ("system_fingerprint", "fp"),
    ("stop_reason", "x"), ("total_duration", 7), ("billed_units", {"input_tokens": 3}),
    ("remote_model", "r"), ("citations", [{"type": "PLAN", "text": "p"}]), ("nan", float("nan")),
)  # fmt: skip

TURNS: Final = {
    "text": (Turn((_TEXT,), FinishReason.STOP, "stop", _USAGE, None, "id_1", "m_1", _METADATA),),
    "texts": (Turn((Text("a"), Text(""), Text("b "), Text("c", (_CITATION,)), Text("d"))),),
    "reasoning": (
        Turn((_REASONING, Reasoning(" Well.", metadata=(("type", "tool_plan"),)), Text("Yes."))),
    ),
    "sealed": (Turn((Reasoning(redacted="eA=="), Reasoning(signature="eA=="), Text("Yes."))),),
    "calls": (
        Turn((Text("Let me see."), *_CALLS, Reasoning("Hm."), Text("Done.")), usage=Usage(1, 2)),
    ),
    "refusal": (Turn((Text("No. "), Refusal("I can't.")), FinishReason.REFUSAL),),
    "provider's tools": (
        Turn(
            (
                ToolCall("srv_1", "web_search", '{"query":"x"}', (("type", "server_tool_use"),)),
                ToolResult("srv_1", "found", "web_search", metadata=(("type", "web"),)),
                Text("Yes."),
            ),
            FinishReason.STOP,
        ),
    ),
    "image": (Turn((Text("Look:"), Media("image/png", base64="aGk="))),),
    "two images": (Turn((Media("image/png", base64="aGk="),) * 2),),
    "linked sound": (Turn((Media("audio/wav", "https://example.com/a.wav", "", "Hello"),)),),
    "arguments": (Turn((ToolCall("1", "f", "[1]"),)),),
    "empty": (Turn(()),),
    "surrogates": (Turn((Text("a\ud83d"), ToolCall("\udc00", "f", "{}")), model="\ud800"),),
    "failed": (
        Turn((_TEXT,), usage=_USAGE, failure=Failure("gone", "busy", "503"), metadata=_METADATA),
    ),
    "failed at once": (Turn((), failure=Failure("", "", "x")),),
    "choices": (
        Turn((Text("a"),), FinishReason.STOP, usage=_USAGE, id="id_1", metadata=_METADATA),
        Turn((Text("b"), _CALLS[0]), FinishReason.LENGTH, id="id_2"),
    ),
    **{f"finish {finish}": (Turn((Text("a"),), finish),) for finish in FinishReason},
}


@cache
def _expected_table() -> dict[str, dict[str, Any]]:
    return orjson.loads(TABLE.read_bytes())  # type: ignore[no-any-return] # our own file


def outcomes(manner: Manner) -> dict[str, Any]:
    """For each of the turns, what the dialect decodes from its encoding, and the losses."""
    return {name: _outcome(manner, turns) for name, turns in TURNS.items()}


def _outcome(manner: Manner, turns: tuple[Turn, ...]) -> Any:
    dialect, request, context = manner.dialect, manner.request, manner.context
    try:
        converted = dialect.representable_turns(request, turns, context)
    except NotRepresentable as error:
        with pytest.raises(NotRepresentable, match=f"^{re.escape(str(error))}$"):
            dialect.encode_response(request, turns, context)
        return {"refused": str(error)}
    response = dialect.encode_response(request, turns, context)
    assert dialect.decode_response(response) == converted.turns
    return {
        "losses": converted.losses,
        "status": response.head.status,
        "turns": [_without_defaults(orjson.loads(orjson.dumps(turn))) for turn in converted.turns],
    }


def _without_defaults(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: _without_defaults(field)
            for name, field in value.items()
            if field not in (None, "", [])
        }
    return [_without_defaults(item) for item in value] if isinstance(value, list) else value


@each_row("manner", MANNERS)
def test_what_a_dialect_keeps_and_loses_of_rich_turns_is_what_the_table_says(
    manner: Manner,
) -> None:
    table = _expected_table()
    expected = {
        name: table[outcome][name] if isinstance(outcome, str) else outcome
        for name, outcome in table[manner.name].items()
    }

    assert orjson.loads(orjson.dumps(outcomes(manner))) == expected


@each_row("manner", MANNERS)
@each_row("finish", [FinishReason.STOP, FinishReason.LENGTH])
def test_ids_and_finish_reasons_survive(manner: Manner, finish: FinishReason) -> None:
    calls = (ToolCall("call_1", "f", "{}"), ToolCall("call_2", "g", "{}"))
    turn = Turn((Text("a"),), finish, usage=Usage(1, 2), id="id_1", model="m_1")
    text = manner.dialect.decode_response(
        manner.dialect.encode_response(manner.request, (turn,), manner.context)
    )[0]
    try:
        response = manner.dialect.encode_response(manner.request, (Turn(calls),), manner.context)
    except NotRepresentable:
        decoded_calls = []
    else:
        [decoded] = manner.dialect.decode_response(response)
        decoded_calls = [part for part in decoded.parts if isinstance(part, ToolCall)]
        assert decoded.finish is manner.decoded_finish(FinishReason.TOOL_CALLS)

    assert text.finish is manner.decoded_finish(finish)
    assert text.id in ("", "id_1") or text.id in manner.request.path
    assert text.model in ("", "m_1")
    assert [(call.name) for call in decoded_calls] in ([], ["f", "g"])
    assert {call.id for call in decoded_calls} <= {"", "call_1", "call_2"}


def _table() -> bytes:
    """The outcomes as JSON, one a line; one that an earlier form has is that form's name."""
    names_by_outcome: dict[tuple[str, bytes], str] = {}
    rows: list[bytes] = []
    for manner in MANNERS:
        lines: list[bytes] = []
        for name, outcome in outcomes(manner).items():
            data = orjson.dumps(outcome)
            first_manner = names_by_outcome.setdefault((name, data), manner.name)
            known = data if first_manner == manner.name else orjson.dumps(first_manner)
            lines.append(b" %b:%b" % (orjson.dumps(name), known))
        rows.append(b"%b:{\n%b\n}" % (orjson.dumps(manner.name), b",\n".join(lines)))
    return b"{\n%b\n}\n" % b",\n".join(rows)


if __name__ == "__main__":
    TABLE.write_bytes(_table())
