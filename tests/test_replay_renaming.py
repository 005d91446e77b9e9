"""Replay: recorded ids and folders are replaced by those of the requesting client."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from dialect_manners import MANNERS
from in_process_proxy import load_cassettes, proxy
from llm_proxy.framing import split_messages
from llm_proxy.matching.option_grammar import parse_rules
from llm_proxy.pacing import InstantPace, Pace, RecordedPace, TokenRatePace
from llm_proxy.turns import Text, Turn
from provider_streams import chat_chunk, sse
from raw_http import RawResponse, build_http_request, send_request
from stub_upstream import chunked, upstream

RULES: Final = parse_rules(["paths", "call-ids"])
STREAM: Final = "text/event-stream"


def chat_request(folder: str, id_: str, **fields: Any) -> bytes:
    """Return a chat request of a client that works in a folder and chose a call id itself."""
    messages = [
        {"role": "system", "content": f"Working directory: {folder}"},
        {"role": "assistant", "tool_calls": [{"id": id_, "function": {"name": "f"}}]},
        {"role": "tool", "tool_call_id": id_, "content": "done"},
    ]
    body = {"model": "m", "stream": True, "messages": messages} | fields
    return build_http_request(
        "/v1/chat/completions", json.dumps(body).encode(), "Content-Type: application/json"
    )


def answer_stream(folder: str, id_: str, size: int = 3) -> bytes:
    """Return a stream whose text contains the call id and the folder, in chunks of `size`."""
    text = f"{id_} wrote {folder}/a.txt"
    return sse(
        [chat_chunk(content=text[at : at + size]) for at in range(0, len(text), size)], done=True
    )


def response_text(raw: RawResponse) -> str:
    """Return the joined text of a streamed response."""
    events = [item[6:] for item in raw.body.split(b"\n\n") if item.startswith(b"data: {")]
    return "".join(json.loads(event)["choices"][0]["delta"]["content"] for event in events)


def split_body(body: bytes) -> list[bytes]:
    return [body[at : at + 41] for at in range(0, len(body), 41)]


async def record(folder: Path, request: bytes, body: bytes) -> None:
    """Record this body as the response to this request."""
    async with (
        upstream(chunked(split_body(body))) as stub,
        proxy("record", folder, stub.url, match_rules=RULES) as recording,
    ):
        await send_request(recording.url, request)


PACES: Final = (InstantPace(), RecordedPace(), TokenRatePace(100_000.0))


@pytest.mark.parametrize("pace", PACES, ids=str)
async def test_a_client_receives_its_own_ids_and_folders_at_every_pace(
    tmp_path: Path, pace: Pace
) -> None:
    await record(
        tmp_path, chat_request("/srv/a", "call_12345"), answer_stream("/srv/a", "call_12345")
    )

    async with proxy("replay", tmp_path, match_rules=RULES, pace=pace) as replaying:
        raw = await send_request(replaying.url, chat_request("/opt/longer", "mine_1"))
        journal_page = await send_request(replaying.url, b"GET /_proxy/journal HTTP/1.1\r\n\r\n")

    (entry,) = json.loads(journal_page.body)["entries"]
    assert raw.status == 200
    assert response_text(raw) == "mine_1 wrote /opt/longer/a.txt"
    assert entry["replaced_values"] == 2


async def test_each_client_receives_its_own_values_from_the_same_recording(tmp_path: Path) -> None:
    body = answer_stream("/srv/a", "call_12345")
    await record(tmp_path, chat_request("/srv/a", "call_12345"), body)
    clients = [("/opt/b", "call_b0001"), ("/srv/a", "call_12345"), ("/opt/c", "call_c0001")]

    async with proxy(
        "replay", tmp_path, match_rules=RULES, pace=TokenRatePace(100_000.0)
    ) as replaying:
        responses = [await send_request(replaying.url, chat_request(*client)) for client in clients]
        renamed = [entry.replaced_values for entry in replaying.journal.entries]

    assert [response_text(item) for item in responses] == [
        f"{id_} wrote {at}/a.txt" for at, id_ in clients
    ]
    assert responses[1].body == body
    assert renamed == [2, 0, 2]


async def test_an_answer_that_names_nothing_of_the_client_is_the_recorded_one(
    tmp_path: Path,
) -> None:
    body = answer_stream("/srv/other", "call_00001")
    await record(tmp_path, chat_request("/srv/a", "call_12345"), body)

    async with proxy("replay", tmp_path, match_rules=RULES, pace=InstantPace()) as replaying:
        raw = await send_request(replaying.url, chat_request("/opt/b", "call_67890"))

    assert raw.body == body


async def test_the_cassette_stays_as_it_is(tmp_path: Path) -> None:
    await record(
        tmp_path, chat_request("/srv/a", "call_12345"), answer_stream("/srv/a", "call_12345")
    )
    (before,) = load_cassettes(tmp_path)

    async with proxy("replay", tmp_path, match_rules=RULES, pace=InstantPace()) as replaying:
        await send_request(replaying.url, chat_request("/opt/b", "call_67890"))

    assert load_cassettes(tmp_path) == [before]


async def test_without_rules_another_folder_is_a_miss(tmp_path: Path) -> None:
    await record(
        tmp_path, chat_request("/srv/a", "call_12345"), answer_stream("/srv/a", "call_12345")
    )

    async with proxy("replay", tmp_path, pace=InstantPace()) as replaying:
        raw = await send_request(replaying.url, chat_request("/opt/b", "call_67890"))

    assert raw.status == 424


async def test_the_answer_of_a_nearest_cassette_stays_as_it_was_recorded(tmp_path: Path) -> None:
    """The first id of the cassette need not correspond to the first id of the request."""
    body = answer_stream("/srv/a", "call_12345")
    await record(tmp_path, chat_request("/srv/a", "call_12345"), body)

    async with proxy(
        "replay", tmp_path, match_rules=RULES, nearest=0.6, pace=InstantPace()
    ) as replaying:
        raw = await send_request(replaying.url, chat_request("/opt/b", "call_67890", seed=1))

    assert (raw.status, raw.body) == (200, body)


async def test_a_text_in_counted_pieces_is_one_text_of_its_dialect(tmp_path: Path) -> None:
    def nova_request(folder: str) -> bytes:
        body = {"system": [{"text": f"Working directory: {folder}"}], "messages": []}
        return build_http_request(
            "/model/us.amazon.nova-2-lite-v1%3A0/invoke-with-response-stream",
            json.dumps(body).encode(),
            "Content-Type: application/json",
        )

    [manner] = [each for each in MANNERS if each.name == "bedrock nova stream"]
    context = replace(manner.context, split_text=list)
    response = manner.dialect.encode_response(
        manner.request, [Turn((Text("in /srv/a/a.txt"),))], context
    )
    await record(tmp_path, nova_request("/srv/a"), b"".join(response.framed_messages))

    async with proxy("replay", tmp_path, match_rules=RULES) as replaying:
        raw = await send_request(replaying.url, nova_request("/opt/longer"))

    messages = tuple(split_messages(response.codec_name, raw.body))
    [turn] = manner.dialect.decode_response(replace(response, framed_messages=messages))
    assert turn.text == "in /opt/longer/a.txt"
