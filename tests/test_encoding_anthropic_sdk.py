"""What Anthropic's own SDK understands of what we tell; and every real answer, told again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import anthropic
import httpx2
import pytest

import corpus
from anthropic_encoding import LEGACY, STREAM, WHOLE
from anthropic_events import DIALECT, document
from conformance_cases import CASES, Case
from corpus_framing import as_sent
from dialect_manners import DELIVERY
from llm_proxy import dialects, framing
from llm_proxy.dialects import DialectResponse
from llm_proxy.errors import NotRepresentable
from llm_proxy.exchange import Request
from llm_proxy.turns import Failure, Finish, Metadata, Part, Text, ToolCall, ToolResult, Turn

Answer = Callable[[Request], DialectResponse]


def client(answer: Answer) -> anthropic.Anthropic:
    """The SDK, whose requests are answered by this; it asks again no more than it must."""

    def handle(asked: httpx2.Request) -> httpx2.Response:
        url = asked.url
        request = Request(
            asked.method, url.path, url.query.decode(), tuple(asked.headers.items()), asked.content
        )
        assert dialects.find_dialect(request) is dialects.dialect_named("anthropic")
        told = DIALECT.auxiliary_response(request, DELIVERY) or answer(request)
        body = b"".join(told.messages)
        return httpx2.Response(told.head.status, headers=list(told.head.headers), content=body)

    transport = httpx2.Client(transport=httpx2.MockTransport(handle))
    return anthropic.Anthropic(
        api_key="none", base_url="http://127.0.0.1", max_retries=0, http_client=transport
    )


def telling(turn: Turn) -> Answer:
    return lambda request: DIALECT.encode(request, (turn,), DELIVERY)


def heard(turn: Turn, *, stream: bool) -> dict[str, Any]:
    """The message that the SDK makes of what it is told."""
    with client(telling(turn)) as sdk:
        messages = sdk.beta.messages
        if not stream:
            return messages.create(model="claude-sonnet-5", max_tokens=9, messages=[]).to_dict()
        with messages.stream(model="claude-sonnet-5", max_tokens=9, messages=[]) as events:
            return events.get_final_message().to_dict()


SEARCH: Final = ToolCall("s", "web_search", '{"query":"q"}', (("type", "server_tool_use"),))
FOUND: Final = ToolResult(
    "s",
    '[{"encrypted_content":"e","title":"t","type":"web_search_result","url":"u"}]',
    metadata=(("type", "web_search_tool_result"),),
)
MORE: Final = (
    Case("tool of the provider", Turn((SEARCH, FOUND, Text("It is.")), Finish.STOP)),
    Case("paused", Turn((SEARCH, FOUND), Finish.PAUSED)),
    Case("tool of another", Turn((ToolCall("c", "f", "{}"), ToolResult("c", "5"), Text("Five.")))),
)
SAID: Final = [item for item in (*CASES, *MORE) if item.turn.failure is None]
each_case = pytest.mark.parametrize("case", SAID, ids=lambda it: it.name)


@each_case
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
def test_the_sdk_hears_what_was_told(case: Case, stream: bool) -> None:
    (understood,) = DIALECT.decode(document(**heard(case.turn, stream=stream)))
    (told,) = DIALECT.convert(WHOLE, (case.turn,), DELIVERY).turns

    assert _spelled(understood) == _spelled(told)


def test_the_sdk_raises_what_breaks_a_stream_off() -> None:
    turn = Turn((Text("Hello"),), failure=Failure("Overloaded", "overloaded_error"))
    with (
        client(telling(turn)) as sdk,
        sdk.messages.stream(model="m", max_tokens=9, messages=[]) as events,
        pytest.raises(anthropic.APIStatusError, match="Overloaded") as raised,
    ):
        events.until_done()

    (block,) = events.current_message_snapshot.content
    assert block.type == "text"
    assert block.text == "Hello"
    assert raised.value.status_code == 200
    assert raised.value.type == "overloaded_error"


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, anthropic.BadRequestError),
        (401, anthropic.AuthenticationError),
        (402, anthropic.APIStatusError),
        (403, anthropic.PermissionDeniedError),
        (404, anthropic.NotFoundError),
        (409, anthropic.ConflictError),
        (413, anthropic.APIStatusError),
        (422, anthropic.UnprocessableEntityError),
        (429, anthropic.RateLimitError),
        (500, anthropic.InternalServerError),
        (503, anthropic.APIStatusError),
        (504, anthropic.APIStatusError),
        (529, anthropic.APIStatusError),
    ],
)
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
def test_the_sdk_raises_each_status_as_its_own(
    status: int, kind: type[anthropic.APIStatusError], stream: bool
) -> None:
    refusal = DIALECT.error_response(status, Failure("Not now."), DELIVERY, 7)
    with client(lambda _: refusal) as sdk, pytest.raises(kind, match=r"Not now\.") as raised:
        sdk.messages.create(model="m", max_tokens=9, messages=[], stream=stream)

    body: Any = raised.value.body
    assert raised.value.status_code == status
    assert raised.value.request_id == body["request_id"] == DELIVERY.identifier("req_")
    assert raised.value.response.headers["retry-after"] == "7"


def test_the_sdk_lists_models_and_counts_tokens() -> None:
    with client(telling(Turn(()))) as sdk:
        assert [item.id for item in sdk.models.list(limit=1)] == ["small", "large"]
        assert sdk.models.retrieve("small").created_at.year == 2023
        with pytest.raises(anthropic.NotFoundError, match="model: other"):
            sdk.models.retrieve("other")
        count = sdk.messages.count_tokens(
            model="m", messages=[{"role": "user", "content": "12345678"}]
        )
    assert count.input_tokens == 2


REAL: Final = ("anthropic.messages.", "anthropic.complete.")
CUT: Final = "ab068f9420ec7f19"
"""The row that was spliced: its first message ends inside the arguments of a call."""


def _spelled(turn: Turn) -> Turn:
    """The turn with its metadata in one order, whatever those who wrote it sorted."""

    def part(it: Part) -> Part:
        if isinstance(it, Text):
            cited = (replace(one, metadata=_sorted(one.metadata)) for one in it.citations)
            it = replace(it, citations=tuple(cited))
        return replace(it, metadata=_sorted(it.metadata))

    return replace(turn, parts=tuple(map(part, turn.parts)), metadata=_sorted(turn.metadata))


def _sorted(metadata: Metadata) -> Metadata:
    return tuple(sorted(metadata, key=lambda pair: pair[0]))


def _retold(turn: Turn, request: Request) -> Turn:
    """The turn as it is read once it was told, which loses nothing."""
    fitted = DIALECT.convert(request, (turn,), DELIVERY)
    assert fitted.losses == ()
    assert DIALECT.decode(DIALECT.encode(request, (turn,), DELIVERY)) == fitted.turns
    return fitted.turns[0]


def _compact(turn: Turn) -> Turn:
    """The turn with the arguments of its calls as a document spells them."""
    calls = [DIALECT.convert(WHOLE, (Turn((part,)),), DELIVERY).turns[0].parts[0]
             if isinstance(part, ToolCall) else part for part in turn.parts]  # fmt: skip
    return replace(turn, parts=tuple(calls))


@pytest.mark.corpus
@pytest.mark.skipif(not corpus.available(), reason=corpus.REASON)
def test_every_real_answer_is_told_again_as_it_was() -> None:
    counted: Counter[str] = Counter()
    for row in map(as_sent, corpus.rows()):
        if not row.wire.startswith(REAL):
            continue
        codec = DIALECT.codec(row.request, row.head)
        stream = LEGACY if "complete" in row.wire else STREAM
        whole = replace(stream, body=b"{}")
        for turn in DIALECT.decode(
            DialectResponse(row.head, codec, framing.split_messages(codec, row.body))
        ):
            counted["turns"] += 1
            if turn.failure:
                counted["errors"] += 1
                assert _retold(turn, whole) == turn, row.id
            elif turn.finish is None:
                counted["cut"] += 1
                made = replace(turn, finish=Finish.TOOL_CALLS, finish_raw="tool_use")
                assert (_retold(turn, stream), row.id) == (made, CUT)
                with pytest.raises(NotRepresentable, match="the arguments of a call"):
                    DIALECT.convert(whole, (turn,), DELIVERY)
            else:
                assert _spelled(_retold(turn, stream)) == _spelled(turn), row.id
                assert _spelled(_retold(turn, whole)) == _spelled(_compact(turn)), row.id
    assert counted == {"turns": 238, "errors": 24, "cut": 1}
