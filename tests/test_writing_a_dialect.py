"""The page on writing a dialect: its code runs, and is a dialect as the others are."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import assume, given

from dialect_manners import TALKS
from llm_proxy import framing
from llm_proxy.conversation import Conversation, RequestMessage
from llm_proxy.dialects import Dialect
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.errors import NotRepresentable
from llm_proxy.exchange import Request
from llm_proxy.turns import Failure, Finish, Reasoning, Text, ToolCall, Turn, Usage

PAGE = Path(__file__).parents[1] / "docs" / "writing-a-dialect.md"
DELIVERY = EncodeContext("page", 1_700_000_000)


@cache
def acme() -> Dialect:
    """The dialect that the page writes."""
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        exec(compile(block, str(PAGE), "exec"), names)  # noqa: S102 # the page's code is ours
    return cast("Dialect", names["Acme"]())


def asked(*, stream: bool) -> Request:
    return acme().sample_request("acme-1", stream=stream)


def test_the_page_says_what_acme_streams_and_what_it_answers_whole() -> None:
    turn = Turn((Text("Good morning"),), Finish.STOP, usage=Usage(3, 2))

    stream = acme().encode(asked(stream=True), (turn,), DELIVERY)
    whole = acme().encode(asked(stream=False), (turn,), DELIVERY)

    page = PAGE.read_text()
    assert all(line.decode().strip() in page for line in stream.messages)
    assert b"".join(whole.messages).decode() == (
        '{"words":"Good morning","why":"done","spent":{"in":3,"out":2}}'
    )


@pytest.mark.parametrize("stream", [True, False])
@given(turn=TALKS)
def test_what_acme_tells_it_reads(stream: bool, turn: Turn) -> None:
    request = asked(stream=stream)
    try:
        fits = acme().convert(request, (turn,), DELIVERY)
    except NotRepresentable:
        assume(False)  # noqa: FBT003 # Hypothesis's own way to pass over an example
        raise

    response = acme().encode(request, (turn,), DELIVERY)

    assert acme().matches(request)
    assert acme().decode(response) == fits.turns
    assert acme().completeness(response).is_complete
    assert acme().codec(request, response.head) == response.codec
    assert framing.split_messages(response.codec, b"".join(response.messages)) == list(
        response.messages
    )


def test_acme_reads_what_it_is_asked() -> None:
    request = replace(asked(stream=True), body=b'{"model":"acme-1","prompt":"Hello?"}')

    assert acme().decode_request(request) == Conversation(
        (RequestMessage("user", (Text("Hello?"),)),)
    )
    assert acme().decode_request(replace(request, body=b"no JSON")) is None


def test_what_acme_tells_in_three_pieces_three_lines_say() -> None:
    response = acme().encode(asked(stream=True), (Turn((Text("Good morning, Rome"),)),), DELIVERY)

    assert [acme().output_chars("ndjson", message) for message in response.messages] == [4, 9, 5, 0]
    assert acme().output_chars("whole", response.messages[0]) == 0


def test_acme_refuses_a_call_and_leaves_out_reasoning() -> None:
    request = asked(stream=True)
    thinking = Turn((Reasoning("Hm."), Text("Hello")))

    assert acme().convert(request, (thinking,), DELIVERY).losses == ("reasoning",)
    with pytest.raises(NotRepresentable, match="acme has no word for a tool call"):
        acme().convert(request, (Turn((ToolCall("1", "f", "{}"),)),), DELIVERY)


def test_acme_refuses_in_its_own_shape() -> None:
    response = acme().error_response(429, Failure("slowly", "busy"), DELIVERY, 2.0)

    assert response.head.status == 429
    assert response.messages == (b'{"oops":{"kind":"busy","text":"slowly"}}',)
    assert acme().decode(response) == (Turn((), failure=Failure("slowly", "busy")),)
