"""No secret is stored: of every kind, in every encoding, wherever and however it arrives."""

from __future__ import annotations

import codecs
import gzip
import json
import re
from base64 import b32encode, b64encode, encodebytes, urlsafe_b64encode
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import product
from pathlib import Path
from random import Random
from typing import Any, Final
from urllib.parse import quote

import msgspec
import pytest

from case_tables import each_row
from cassette_builders import FILE_NAME, HEAD, encode_cassette
from dialect_manners import MANNERS, Manner
from llm_proxy.cassette import Cassette, StoredRequest, parse_cassette
from llm_proxy.dialects import DialectResponse
from llm_proxy.errors import NotRepresentable
from llm_proxy.exchange import Read, Request, ResponseHead
from llm_proxy.framing import eventstream
from llm_proxy.message_texts import editable_text
from llm_proxy.redaction import (
    DEFAULT_REDACTION,
    NO_REDACTION,
    Redactor,
    ResponseRedaction,
    client_secrets,
    environment_secret_spellings,
    operator_secrets,
    redact_known,
    redact_request,
    request_credential_spellings,
)
from llm_proxy.redaction.frames import FrameRedactor
from llm_proxy.turns import Part, Reasoning, Text, ToolCall, Turn
from provider_streams import ndjson, sse
from secret_canaries import (
    CANARIES,
    CARRIERS,
    CLIENT_SECRET,
    ENVIRONMENT_SECRET,
    Canary,
    joined_texts,
    rest_of,
)
from thoroughness import quick_or_thorough

KNOWN_SECRETS: Final = client_secrets(
    request_credential_spellings(Request("POST", "/", "", (("x-api-key", CLIENT_SECRET),), b""))
) | operator_secrets(environment_secret_spellings({"DB_PASSWORD": ENVIRONMENT_SECRET}))
REDACTION: Final = ResponseRedaction(
    DEFAULT_REDACTION, DEFAULT_REDACTION.finder(KNOWN_SECRETS), follows_stream=True
)

for_each_canary = each_row("canary", CANARIES, ids=[canary.name for canary in CANARIES])


def prompt_body(text: str) -> bytes:
    """A chat request about a text."""
    return json.dumps({"messages": [{"role": "user", "content": f"Is {text} right?"}]}).encode()


def stored_request(path: str, query: str, body: bytes) -> StoredRequest:
    """What is stored of a request."""
    headers = (("content-type", "application/json"),)
    request = StoredRequest("POST", path, query, headers, body)
    finder = NO_REDACTION.finder(KNOWN_SECRETS)
    return redact_known(redact_request(request, DEFAULT_REDACTION), finder)


def spooled_answer(codec: str, reads: Sequence[bytes], head: ResponseHead = HEAD) -> Cassette:
    """What is stored of an answer that arrives in these reads, while it is running."""
    redactor = Redactor(REDACTION.finder)
    body = FrameRedactor(redactor) if codec == eventstream.CODEC_NAME else redactor
    pieces = [piece for at, data in enumerate(reads) for piece in body.feed(Read(20.0 + at, data))]
    stored_reads = [Read(each.at_ms, each.received_bytes) for each in (*pieces, *body.flush())]
    cassette = parse_cassette(FILE_NAME, encode_cassette(stored_reads, codec=codec, head=head))
    count = redactor.replaced_count
    end = msgspec.structs.replace(cassette.response_end, redacted_count=count)
    return replace(cassette, response_end=end)


def stored_answer(
    codec: str,
    reads: Sequence[bytes],
    head: ResponseHead = HEAD,
    counted_texts: Collection[tuple[str, str]] = (),
) -> Cassette:
    """The cassette of an answer that arrives in these reads."""
    return REDACTION.redact(spooled_answer(codec, reads, head), counted_texts)


def views(cassette: Cassette) -> Iterator[bytes]:
    """A response as bytes, and its texts, joined."""
    yield cassette.response_body
    yield from joined_texts(_documents(cassette))


def _documents(cassette: Cassette) -> Iterator[Any]:
    for message in cassette.framed_messages:
        text = editable_text(cassette.codec_name, message)
        try:
            yield json.loads(text.text) if text is not None else None
        except ValueError:
            yield text.text if text is not None else None


def test_there_are_200_canaries_and_each_would_be_found() -> None:
    assert len(CANARIES) >= 200
    for canary in CANARIES:
        assert rest_of(canary.secret, [prompt_body(canary.text)]), canary.name
        middle = canary.secret[5:12]
        assert rest_of(canary.secret, [middle.encode()])
        assert not rest_of(canary.secret, [b""])


@for_each_canary
def test_no_canary_is_stored_of_a_request(canary: Canary) -> None:
    stored = stored_request(
        f"/v1/files/{quote(canary.text, safe='')}",
        f"q={quote(canary.text, safe='')}",
        prompt_body(canary.text),
    )

    assert not rest_of(canary.secret, [stored.path.encode(), stored.query.encode(), stored.body])


@for_each_canary
def test_no_canary_is_stored_of_an_answer_of_one_message(canary: Canary) -> None:
    for codec, body in (
        ("whole", prompt_body(canary.text)),
        ("whole", json.dumps(canary.text, ensure_ascii=False).encode()),
        ("ndjson", ndjson({"a": canary.text}, {"a": "b"})),
        ("sse", sse([{"a": canary.text}, {"a": "b"}])),
    ):
        assert not rest_of(canary.secret, views(spooled_answer(codec, [body])))


@each_row("canary", quick_or_thorough(CANARIES[::23], CANARIES))
def test_no_canary_is_stored_of_an_answer_that_arrives_byte_by_byte(canary: Canary) -> None:
    body = sse([{"a": canary.text}, {"a": "b"}])

    spooled = spooled_answer("sse", [body[at : at + 1] for at in range(len(body))])

    assert not rest_of(canary.secret, views(spooled))
    assert spooled.response_body == spooled_answer("sse", [body]).response_body


# --- streams ------------------------------------------------------------------------------------

KEY: Final = CARRIERS["Anthropic key"].secret
PARTS: Final[dict[str, Callable[[str], Part]]] = {
    "text": Text,
    "reasoning": Reasoning,
    "arguments": lambda text: ToolCall("call_1", "write", json.dumps({"path": "a", "text": text})),
}
_WHOLE: Final = 10_000
FORMS: Final = tuple(product(PARTS, (1, 3, _WHOLE)))
"""A part of an answer, and the characters of each of its pieces."""


@each_row(
    ("manner", "form", "canary"),
    [
        (manner, FORMS[number * 2 % len(FORMS)], CANARIES[number * 29 % len(CANARIES)])
        for number, manner in enumerate(MANNERS * 2)
    ],
)
def test_no_canary_is_stored_of_an_answer_in_any_dialect_however_it_is_streamed(
    manner: Manner, form: tuple[str, int], canary: Canary
) -> None:
    check_answer(manner, *form, canary)


@pytest.mark.thorough
@pytest.mark.parametrize("manner", MANNERS, ids=[manner.name for manner in MANNERS])
def test_no_canary_at_all_is_stored_of_an_answer_in_any_dialect(manner: Manner) -> None:
    for number, form in enumerate(FORMS):
        for canary in CANARIES[number :: len(FORMS)]:
            check_answer(manner, *form, canary)


def check_answer(manner: Manner, part: str, size: int, canary: Canary) -> None:
    """A stream of an answer about a canary is stored without it, and can be decoded."""
    context = replace(
        manner.context,
        split_text=lambda text: [text[at : at + size] for at in range(0, len(text), size)],
    )
    turn = Turn((PARTS[part](f"Is {canary.text} right?"),))
    try:
        sent = manner.dialect.encode_response(manner.request, [turn], context)
    except NotRepresentable:
        return

    stored = stored_answer(
        sent.codec_name, sent.framed_messages, sent.head, manner.dialect.counted_texts
    )

    decoded = manner.dialect.decode_response(
        DialectResponse(stored.response_head, stored.codec_name, stored.framed_messages)
    )
    assert not rest_of(canary.secret, [*views(stored), repr(decoded).encode()]), (
        manner.name, part, size, canary.name
    )  # fmt: skip


def event(text: str, index: int = 0) -> bytes:
    """An event of a chat stream."""
    choice = {"index": index, "delta": {"content": text}}
    return b"data: %b\n\n" % json.dumps({"choices": [choice]}).encode()


@each_row("canary", quick_or_thorough(CANARIES[::5], CANARIES))
def test_the_rest_of_a_secret_goes_that_is_cut_between_two_messages(canary: Canary) -> None:
    for cut in range(1, len(canary.text), len(canary.text) // 5):
        first, second = canary.text[:cut], canary.text[cut:]
        for events in (
            [event(f"Is {first}"), event(f"{second} right?")],
            [event(f"Is {first}"), event(second[:9]), event(second[9:])],
        ):
            stored = stored_answer("sse", events)
            assert not rest_of(canary.secret, views(stored)), (canary.name, cut)


SHAPED: Final = [
    pytest.param(carrier.full_text, carrier.secret, id=name) for name, carrier in CARRIERS.items()
]
for_each_secret = each_row(("text", "secret"), SHAPED)


@for_each_secret
def test_no_secret_is_stored_at_the_end_or_between_other_messages(text: str, secret: str) -> None:
    done, comment = b"data: [DONE]\n\n", b": keep-alive\n\n"
    for cut in (len(text) // 3, len(text) * 2 // 3, len(text)):
        first, second = event(f"Is {text[:cut]}"), event(text[cut:])
        for messages in (
            [first, second],
            [first, second.rstrip()],
            [first, second.rstrip()[:-5]],
            [first, done, second, done],
            [first, comment, second],
            [event(f"Or {text[:cut]}", 1), first, second, event(text[cut:], 1)],
            [b"data: Is %b\n\ndata: %b\n\n" % (_line(text[:cut]), _line(text[cut:]))],
        ):
            assert not rest_of(secret, views(stored_answer("sse", messages))), (cut, messages)


@for_each_secret
def test_no_secret_is_stored_outside_of_data(text: str, secret: str) -> None:
    for body in (
        b": %b\n\ndata: {}\n\n" % _line(text),
        b"event: %b\ndata: {}\n\n" % _line(text),
        b"id: %b\ndata: {}\n\n" % _line(text),
        b"data: {}\n\n%b" % _line(text),
    ):
        assert not rest_of(secret, views(stored_answer("sse", [body])))


def _line(text: str) -> bytes:
    return text.replace("\n", "\\n").encode()


BEFORE: Final = (
    "\n", "\t", "=", ":", '"', "'", "`", "“", "(", "/", "\\", "中", "\u00a0", "key:", "KEY=", "<b>"
)  # fmt: skip
AFTER: Final = (
    "", "\n", " ", '"', "'", "`", ")", ",", ".", "中", "</b>", "\\", "&", ";", "\t", "]"
)  # fmt: skip


@for_each_secret
def test_no_secret_is_stored_directly_behind_or_in_front_of_other_characters(
    text: str, secret: str
) -> None:
    pairs = quick_or_thorough(list(zip(BEFORE, AFTER, strict=True))[::2], product(BEFORE, AFTER))
    for before, after in pairs:
        marked = f"{before}{text}{after}"
        one_by_one = [event(char) for char in marked]
        assert not rest_of(secret, views(stored_answer("sse", one_by_one))), marked
        assert not rest_of(secret, views(stored_answer("ndjson", [ndjson({"a": marked})]))), marked


@for_each_secret
def test_no_secret_of_several_is_stored(text: str, secret: str) -> None:
    for several in (f"{text} {text}", f"{text},{text}", f"{text}\n{text}"):
        for messages in ([event(several)], [event(char) for char in several]):
            assert not rest_of(secret, views(stored_answer("sse", messages)))


@each_row("size", [1, 3, 20, _WHOLE])
def test_what_follows_a_secret_stays(size: int) -> None:
    text = f"{KEY}.Then, or {KEY}/a=b, or {KEY}"
    events = [event(text[at : at + size]) for at in range(0, len(text), size)]
    stored = list(views(stored_answer("sse", events)))
    assert text.replace(KEY, "[redacted:anthropic-key]").encode() in stored


# --- what stays ---------------------------------------------------------------------------------

_NOISE: Final = b64encode(Random(7).randbytes(240)).decode()
NEEDED: Final = {
    "signature": "EqQBCkYIARgCKkB" + _NOISE[:80],
    "encrypted_content": "gAAAAABo" + _NOISE[80:160].replace("+", "-").replace("/", "_"),
    "thoughtSignature": "CpcBAVSoXO5q" + _NOISE[160:240],
    "data": "iVBORw0KGgoAAAANSUhEUgAA" + _NOISE[240:],
    "id": "chatcmpl-CVrN2bqX8dJkT5mWp3LzYh7Fs9RcA",
    "call_id": "call_9hGkT2xWqLm4RvNz8Yp1Bc7D",
    "tool_use_id": "toolu_01A9hGkT2xWqLm4RvNz8Yp1B",
    "response_id": "resp_68f1a2b3c4d5e6f7a8b9c0d1e2f3a4b5c6d7",
    "message_id": "msg_01XFDUDYJgAACzvnptvVoYEL",
    "item_id": "rs_68f1a2b3c4d5e6f7a8b9c0d1e2f3a4b5",
    "file_id": "file-9hGkT2xWqLm4RvNz8Yp1Bc7D",
    "container": "cntr_68f1a2b3c4d5e6f7a8b9c0d1e2f3",
    "batch": "batch_68f1a2b3c4d5e6f7a8b9c0d1",
    "system_fingerprint": "fp_44709d6fcb",
    "prompt_cache_key": "0193fb2c-93a4-7c1e-8f3d-5b1d2c3e4f5a",
    "sha256": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "commit": "da39a3ee5e6b4b0d3255bfef95601890afd80709",
    "etag": 'W/"68f1a2b3-c4d5"',
    "token": " Hello",
    "key": "value-1",
}


@each_row("manner", MANNERS, ids=[manner.name for manner in MANNERS])
def test_what_a_conversation_needs_stays_as_it_was_sent(manner: Manner) -> None:
    text = json.dumps(NEEDED)
    parts: tuple[Part, ...] = (
        Reasoning("so", NEEDED["signature"], NEEDED["encrypted_content"]),
        Text(text),
        ToolCall(NEEDED["tool_use_id"], "write", text),
    )
    bodies = [manner.request.body, json.dumps({"input": [NEEDED], "text": text}).encode()]
    for body in bodies:
        assert stored_request(manner.request.path, manner.request.query, body).body == body
    for kept in (parts, parts[1:], parts[1:2]):
        with suppress(NotRepresentable):
            turn = Turn(kept, id=NEEDED["id"])
            sent = manner.dialect.encode_response(manner.request, [turn], manner.context)
            stored = stored_answer(sent.codec_name, sent.framed_messages, sent.head)
            assert stored.response_body == b"".join(sent.framed_messages)
            return


def test_random_data_stays_in_every_encoding() -> None:
    data = Random(3).randbytes(quick_or_thorough(200_000, 2_000_000))
    for text in (b64encode(data), urlsafe_b64encode(data), data.hex().encode()):
        body = b'{"data":"%b"}' % text
        reads = [body[at : at + 16_000] for at in range(0, len(body), 16_000)]
        assert stored_answer("whole", reads).response_body == body
        assert stored_request("/v1/x", "", body).body == body


# --- names --------------------------------------------------------------------------------------

UNSHAPED: Final = "correct-horse-7"


@each_row(
    "body",
    [
        {"api_key": UNSHAPED},
        {"model": "m", "extra": {"apiKey": UNSHAPED, "client_secret": UNSHAPED}},
        {"mcp_servers": [{"url": "https://a.example", "authorization_token": UNSHAPED}]},
        {"tools": [{"type": "mcp", "headers": {"Authorization": f"Basic {UNSHAPED}"}}]},
        {"input": [{"arguments": json.dumps({"db": {"password": UNSHAPED}})}]},
        {"input": [{"output": json.dumps({"a": json.dumps({"connection_string": UNSHAPED})})}]},
    ],
)
def test_no_value_of_a_secret_field_is_stored_of_a_request(body: Any) -> None:
    for data in (json.dumps(body), json.dumps(body, indent=2)):
        stored = stored_request("/v1/x", "", data.encode())
        assert not rest_of(UNSHAPED, [stored.body])


# --- what is not found --------------------------------------------------------------------------

KEY_ID: Final = CARRIERS["AWS key id"].secret
NOT_FOUND: Final[dict[str, tuple[str, ...]]] = {
    "a secret without a [recognisable shape](#shapes), outside client credentials, secret fields "
    "and environment variables": (f"the password is {UNSHAPED}",),
    "a client credential shorter than 8 bytes; a secret environment variable shorter than 12 "
    "bytes": (),
    "a [secret field](#secret-fields) whose value is a number or an object": (),
    "a secret field in a response": (),
    "a secret without a recognisable shape, if it is in a `name`/`value` object, or in a URL or "
    "JSON inside longer text": (
        f"https://mcp.example/?api_key={UNSHAPED}",
        json.dumps({"name": "Authorization", "value": UNSHAPED}),
        f'see ```json {{"password": "{UNSHAPED}"}}```',
    ),
    "a secret in an unsupported encoding": (
        b32encode(KEY.encode()).decode(),
        b64encode(KEY.encode("utf-16-le")).decode(),
        "".join(f"\\{ord(char):03o}" for char in KEY),
        KEY.replace("-", "&hyphen;"),
    ),
    "a secret encoded twice as base64 or hexadecimal, or escaped more than twice": (
        b64encode(b64encode(KEY.encode())).decode(),
        KEY.encode().hex().encode().hex(),
        KEY.replace("s", "%252573").replace("-", "%25252D"),
    ),
    "a secret in compressed or encrypted data, images or audio": (
        b64encode(gzip.compress(KEY.encode())).decode(),
    ),
    "a secret in a response with an unsupported content coding": (),
    "a modified secret": (
        KEY[::-1], codecs.encode(KEY, "rot13"), " ".join(KEY), f"sk-ant-**api03**-{KEY[13:]}",
        "\u200b".join(KEY),
    ),
    "the rest of a secret after a line break, except in private keys": (),
    "a key preceded by a letter or digit; a fixed-length key followed by a letter or digit": (
        f"key{KEY_ID}", KEY_ID * 2,
    ),
    "a secret that begins in one text and ends in another": (),
    "a secret field whose value has no closing quote": (
        f'{{"api_key": "{UNSHAPED}',
    ),
    "parts of a secret in the spool, until the recording ends or `recover` runs": (),
    "after a crash, parts of a client credential without a recognisable shape": (),
}  # fmt: skip
"""The list of the documentation: by its items, texts in which nothing is found."""


def test_all_that_is_not_found_is_documented() -> None:
    page = (Path(__file__).parent.parent / "docs" / "explanation" / "security.md").read_text()
    section = page.partition("### What is not found\n")[2].partition("\n## ")[0]
    items = re.findall(r"^- (.+?): .+$", section, re.MULTILINE)
    assert items == [*NOT_FOUND]


@each_row("text", [text for texts in NOT_FOUND.values() for text in texts])
def test_what_is_documented_as_not_found_is_stored(text: str) -> None:
    request, answer = prompt_body(text), sse([{"a": text}])
    assert stored_request("/v1/x", "", request).body == request
    assert stored_answer("sse", [answer]).response_body == answer


def test_a_short_secret_is_not_known() -> None:
    headers = (("x-api-key", "hunter2"),)
    assert not request_credential_spellings(Request("POST", "/", "", headers, b""))
    assert not environment_secret_spellings({"DB_PASSWORD": "q7r4Tz81-Kp"})


@each_row("body", [{"password": 12345678}, {"credentials": {"login": UNSHAPED}}])
def test_the_name_of_a_secret_does_not_count_for_other_values(body: Any) -> None:
    data = json.dumps(body).encode()
    assert stored_request("/v1/x", "", data).body == data


def test_the_name_of_a_secret_does_not_count_in_an_answer() -> None:
    answer = json.dumps({"password": UNSHAPED}).encode()
    assert stored_answer("whole", [answer]).response_body == answer


def test_nothing_is_found_in_an_answer_that_is_compressed() -> None:
    answer = gzip.compress(event(KEY))
    assert stored_answer("whole", [answer]).response_body == answer


def test_the_rest_of_a_secret_behind_a_line_break_is_stored() -> None:
    for text in (encodebytes(KEY.encode()).decode(), f"{KEY[:40]}\n{KEY[40:]}"):
        stored = stored_request("/v1/x", "", prompt_body(text)).body
        assert stored != prompt_body(text)
        assert rest_of(KEY, [stored])


def test_a_secret_in_several_texts_is_stored() -> None:
    answer = sse([{"reasoning": KEY[:20]}, {"content": KEY[20:]}])
    assert stored_answer("sse", [answer]).response_body == answer


def test_the_spool_has_the_pieces_of_a_secret_which_are_replaced_when_it_is_filed() -> None:
    events = [event(KEY[at : at + 3]) for at in range(0, len(KEY), 3)]
    assert rest_of(KEY, views(spooled_answer("sse", events)))
    assert not rest_of(KEY, views(stored_answer("sse", events)))


def test_a_recovered_recording_has_the_pieces_of_a_client_credential_without_a_shape() -> None:
    events = [event(CLIENT_SECRET[at : at + 3]) for at in range(0, len(CLIENT_SECRET), 3)]
    recovered = ResponseRedaction(
        DEFAULT_REDACTION, DEFAULT_REDACTION.finder(), follows_stream=True
    )
    assert rest_of(CLIENT_SECRET, views(recovered.redact(spooled_answer("sse", events), ())))
    assert not rest_of(CLIENT_SECRET, views(stored_answer("sse", events)))
