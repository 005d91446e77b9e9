"""The code of docs/contributing/writing-a-dialect.md runs, and its dialect behaves."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import assume, given

from dialect_manners import COMMON_TURNS
from llm_proxy import framing
from llm_proxy.conversation import Conversation, RequestMessage
from llm_proxy.dialects import Dialect
from llm_proxy.dialects.encoding import EncodeContext
from llm_proxy.errors import NotRepresentable
from llm_proxy.exchange import Request
from llm_proxy.turns import Failure, FinishReason, Reasoning, Text, ToolCall, Turn, Usage

PAGE = Path(__file__).parents[1] / "docs" / "contributing" / "writing-a-dialect.md"
CONTEXT = EncodeContext("page", 1_700_000_000)


@cache
def page_names() -> dict[str, Any]:
    """What the page defines."""
    namespace: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        exec(compile(block, str(PAGE), "exec"), namespace)  # noqa: S102 # our own code
    return namespace


@cache
def acme() -> Dialect:
    """The dialect that the page defines."""
    return cast("Dialect", page_names()["Acme"]())


def sample_request(*, stream: bool) -> Request:
    return acme().sample_request("acme-1", stream=stream)


def test_the_page_says_what_acme_streams_and_what_it_answers_whole() -> None:
    turn = Turn((Text("Good morning"),), FinishReason.STOP, usage=Usage(3, 2))

    stream = acme().encode_response(sample_request(stream=True), (turn,), CONTEXT)
    whole = acme().encode_response(sample_request(stream=False), (turn,), CONTEXT)

    page = PAGE.read_text()
    assert all(line.decode().strip() in page for line in stream.framed_messages)
    assert b"".join(whole.framed_messages).decode() == (
        '{"words":"Good morning","why":"done","spent":{"in":3,"out":2}}'
    )


@pytest.mark.parametrize("stream", [True, False])
@given(turn=COMMON_TURNS)
def test_acme_decodes_what_it_encodes(stream: bool, turn: Turn) -> None:
    request = sample_request(stream=stream)
    try:
        conversion = acme().representable_turns(request, (turn,), CONTEXT)
    except NotRepresentable:
        assume(False)  # noqa: FBT003 # skips the example
        raise

    response = acme().encode_response(request, (turn,), CONTEXT)

    assert acme().matches(request)
    assert acme().decode_response(response) == conversion.turns
    assert acme().completeness(response).is_complete
    assert acme().codec_name(request, response.head) == response.codec_name
    assert framing.split_messages(response.codec_name, b"".join(response.framed_messages)) == list(
        response.framed_messages
    )


def test_acme_decodes_requests() -> None:
    request = replace(sample_request(stream=True), body=b'{"model":"acme-1","prompt":"Hello?"}')

    assert acme().decode_request(request) == Conversation(
        (RequestMessage("user", (Text("Hello?"),)),), model="acme-1"
    )
    assert acme().decode_request(replace(request, body=b"no JSON")) is None


def test_acme_encodes_a_question_and_refuses_what_it_lacks_by_name() -> None:
    question = Conversation((RequestMessage("user", (Text("Hello?"),)),), model="acme-1")

    request = acme().encode_request(replace(question, max_tokens=9))

    assert request.body == b'{"model":"acme-1","prompt":"Hello?","stream":true,"limit":9}'
    assert acme().decode_request(request) == question
    for refused, what in (
        (replace(question, seed=7), "seed"),
        (replace(question, system="Be brief."), "a system prompt or tools"),
        (replace(question, messages=question.messages * 2), "several messages"),
    ):
        with pytest.raises(NotRepresentable, match=f"acme cannot represent {what}"):
            acme().encode_request(refused)


def test_acme_streams_a_line_for_each_of_three_pieces() -> None:
    response = acme().encode_response(
        sample_request(stream=True), (Turn((Text("Good morning, Rome"),)),), CONTEXT
    )

    assert [acme().output_chars("ndjson", message) for message in response.framed_messages] == [
        4,
        9,
        5,
        0,
    ]
    assert acme().output_chars("whole", response.framed_messages[0]) == 0


def test_acme_refuses_a_call_and_leaves_out_reasoning() -> None:
    request = sample_request(stream=True)
    thinking = Turn((Reasoning("Hm."), Text("Hello")))

    assert acme().representable_turns(request, (thinking,), CONTEXT).losses == ("reasoning",)
    with pytest.raises(NotRepresentable, match="acme cannot represent a tool call"):
        acme().representable_turns(request, (Turn((ToolCall("1", "f", "{}"),)),), CONTEXT)


def test_acme_encodes_errors_in_its_own_shape() -> None:
    response = acme().error_response(429, Failure("slowly", "busy"), CONTEXT, 2.0)

    assert response.head.status == 429
    assert response.framed_messages == (b'{"oops":{"kind":"busy","text":"slowly"}}',)
    assert acme().decode_response(response) == (Turn((), failure=Failure("slowly", "busy")),)


def test_the_events_of_the_page_decode_to_what_was_encoded() -> None:
    documents = [{"word": "Good"}, {"why": "done"}]

    response = page_names()["event_stream"](documents)

    assert response.codec_name == "sse"
    assert response.framed_messages[0] == b'data: {"word":"Good"}\n\n'
    assert [*map(page_names()["decode_event"], response.framed_messages)] == documents
