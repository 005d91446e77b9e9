"""No secret is stored: of every kind, in every encoding, wherever and however it arrives."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final
from urllib.parse import quote

from case_tables import each_row
from cassette_builders import FILE_NAME, HEAD, encode_cassette
from llm_proxy.cassette import Cassette, StoredRequest, parse_cassette
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
from provider_streams import ndjson, sse
from secret_canaries import (
    CANARIES,
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
REDACTION: Final = ResponseRedaction(DEFAULT_REDACTION, DEFAULT_REDACTION.finder(KNOWN_SECRETS))

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
    return parse_cassette(FILE_NAME, encode_cassette(stored_reads, codec=codec, head=head))


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
