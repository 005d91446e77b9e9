"""Secrets in frames are redacted, and the frames stay valid."""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Iterable, Sequence
from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st

from case_tables import each_row
from cassette_builders import split_at, splits
from llm_proxy import framing
from llm_proxy.exchange import Read, Request
from llm_proxy.framing.eventstream import Frame, encode_frame, parse_frame
from llm_proxy.redaction import PLACEHOLDER, RedactedPiece, request_credential_spellings
from llm_proxy.redaction.frames import FrameRedactor, count_frame_placeholders
from redactors import redactor_of

KEY: Final = 'sk-"canary/01\\23+45'
SECRETS: Final = request_credential_spellings(
    Request("POST", "/x", "", (("Authorization", f"Bearer {KEY}"),), b"")
)
"""The key in every known spelling."""
PLACEHOLDER_BYTES: Final = PLACEHOLDER.encode()
HEADERS: Final = ((":event-type", "chunk"), (":message-type", "event"))


def bedrock_payload(text: bytes, end: bytes = b'","p":"ab"}') -> bytes:
    """A payload of InvokeModelWithResponseStream."""
    return b'{"bytes":"' + b64encode(text) + end


def unpadded(text: bytes) -> bytes:
    """Decoded base64 without the spaces behind a placeholder, which fill a group of characters."""
    return re.sub(rb"(\[redacted\]) *", rb"\1", text)


def unpacked_frame(frame: Frame | None) -> Frame | None:
    """The frame with its base64 decoded."""
    if frame is None or not frame.payload.startswith(b'{"bytes":"'):
        return frame
    encoded, quote, rest = frame.payload[10:].partition(b'"')
    return Frame(frame.headers, unpadded(b64decode(encoded)) + quote + rest)


def redact_stream(
    pieces: Iterable[bytes], secrets: Iterable[bytes] = SECRETS
) -> tuple[list[Read], int]:
    """The stored reads of these pieces (one arrives every ms), and the count of redactions."""
    redactor = redactor_of(secrets)
    frames = FrameRedactor(redactor)
    pieces_out = [
        item for at, piece in enumerate(pieces) for item in frames.feed(Read(float(at), piece))
    ]
    return join_pieces([*pieces_out, *frames.flush()]), redactor.replaced_count


def join_pieces(pieces: Iterable[RedactedPiece]) -> list[Read]:
    """The reads, with the rests joined to them."""
    reads: list[Read] = []
    for piece in pieces:
        if piece.is_continuation and reads:
            last = reads.pop()
            assert last.at_ms == piece.at_ms
            reads.append(Read(last.at_ms, last.received_bytes + piece.received_bytes))
        else:
            reads.append(Read(piece.at_ms, piece.received_bytes))
    return reads


def body(reads: Iterable[Read]) -> bytes:
    return b"".join(read.received_bytes for read in reads)


def parse_frames(data: bytes) -> list[Frame | None]:
    return [
        parse_frame(split_message) for split_message in framing.split_messages("eventstream", data)
    ]


ESCAPED_KEY: Final = KEY.replace("\\", "\\\\").replace('"', '\\"').encode()


def test_a_frame_with_a_secret_is_re_encoded() -> None:
    reads, count = redact_stream([encode_frame(HEADERS, b'{"text":"so %b it is"}' % ESCAPED_KEY)])
    assert parse_frames(body(reads)) == [Frame(HEADERS, b'{"text":"so [redacted] it is"}')]
    assert count == 1


def test_a_header_with_a_secret_is_re_encoded() -> None:
    headers = ((":event-type", "a"), ("x", f"{KEY} {KEY}"), (KEY, "b"))
    reads, count = redact_stream([encode_frame(headers, b"{}")])
    redacted_headers = ((":event-type", "a"), ("x", "[redacted] [redacted]"), ("[redacted]", "b"))
    assert parse_frames(body(reads)) == [Frame(redacted_headers, b"{}")]
    assert count == 3


@each_row("size", range(60, 66))
def test_a_secret_in_base64_is_found_wherever_it_begins(size: int) -> None:
    text = b'{"text":"%b%b"}' % (b"x" * size, ESCAPED_KEY)
    reads, count = redact_stream([encode_frame(HEADERS, bedrock_payload(text))])
    [found] = parse_frames(body(reads))
    assert found is not None
    assert unpadded(b64decode(found.payload[10:].partition(b'"')[0])) == text.replace(
        ESCAPED_KEY, PLACEHOLDER_BYTES
    )
    assert count == count_frame_placeholders(reads) == 1


def test_base64_is_found_however_json_writes_it() -> None:
    text = b"\xff\xff\xff" + KEY.encode()
    payload = b'{ "bytes" : "' + b64encode(text).replace(b"/", b"\\/") + b'"}'
    reads, count = redact_stream([encode_frame(HEADERS, payload)])
    [found] = parse_frames(body(reads))
    assert found is not None
    assert unpadded(b64decode(json.loads(found.payload)["bytes"])) == text.replace(
        KEY.encode(), PLACEHOLDER_BYTES
    )
    assert count == 1


@each_row("prefix", [b"sk-", b"YQ==Y", b"\\u002f"])
def test_invalid_base64_is_redacted_as_plain_text(prefix: bytes) -> None:
    payload = b'{"bytes":"%bcanary1"}' % prefix
    reads, count = redact_stream([encode_frame(HEADERS, payload)], [b"canary1"])
    assert parse_frames(body(reads)) == [Frame(HEADERS, b'{"bytes":"%b[redacted]"}' % prefix)]
    assert count == count_frame_placeholders(reads) == 1


def test_a_frame_without_a_secret_stays_as_it_is_to_the_byte() -> None:
    whole = encode_frame(HEADERS, bedrock_payload(b"nothing") + b"\xff\x00")
    for at in range(len(whole) + 1):
        reads, count = redact_stream(split_at(whole, [at]))
        assert [read.received_bytes for read in reads] == [
            item for item in split_at(whole, [at]) if item
        ]
        assert count == 0


def test_reads_keep_their_times_around_what_was_replaced() -> None:
    first, second = encode_frame(HEADERS, b"1"), encode_frame(HEADERS, b"<%b>" % KEY.encode())
    data = first + second + first
    at = len(first) + second.index(b"<")
    end = len(first) + second.index(b">") + 1
    reads, _ = redact_stream(split_at(data, [5, at, end, end + 6]))
    redacted = first + encode_frame(HEADERS, b"<[redacted]>") + first
    at_end = len(first) + len(encode_frame(HEADERS, b"<[redacted]>")) - 4
    assert [read.received_bytes for read in reads] == split_at(
        redacted, [5, at, at_end, at_end + 6]
    )
    assert [read.at_ms for read in reads] == [0.0, 1.0, 2.0, 3.0, 4.0]


def test_a_frame_is_held_back_until_it_is_whole() -> None:
    whole = encode_frame(HEADERS, b"<%b>" % KEY.encode())
    frames = FrameRedactor(redactor_of(SECRETS))
    assert frames.feed(Read(1.0, whole[:-1])) == []
    [first, last] = frames.feed(Read(2.0, whole[-1:] + b"\0\0"))
    assert (first.at_ms, last.at_ms) == (1.0, 2.0)
    assert frames.flush() == [RedactedPiece(2.0, b"\0\0", is_continuation=True)]


def test_a_whole_frame_is_stored_even_if_it_ends_as_a_secret_begins() -> None:
    whole = encode_frame(HEADERS, b"{}")
    for size in (1, 2, 4):
        frames = FrameRedactor(redactor_of([whole[-size:] + b"12345678"]))
        assert frames.feed(Read(1.0, whole)) == [RedactedPiece(1.0, whole)]
        assert frames.flush() == []


def test_a_re_encoded_frame_is_stored_even_if_it_ends_as_a_secret_begins() -> None:
    redacted_frame = encode_frame(HEADERS, b"<[redacted]>")
    frames = FrameRedactor(redactor_of([KEY.encode(), redacted_frame[-2:] + b"12345678"]))
    pieces = frames.feed(Read(1.0, encode_frame(HEADERS, b"<%b>" % KEY.encode())))
    assert body(join_pieces(pieces)) == redacted_frame


def test_a_secret_across_the_end_of_a_frame_with_a_wrong_checksum_is_replaced() -> None:
    bad_frame = encode_frame(HEADERS, b"{}")[:-4] + b"sk-c"
    for following in (b"anary01" + b"\0" * 20, b"anary01", b"anary02" + b"\0" * 20):
        reads, count = redact_stream([bad_frame, following], [b"sk-canary01", b"sk-canary02"])
        assert body(reads) == bad_frame[:-4] + PLACEHOLDER_BYTES + following[7:]
        assert count == 1


def test_what_follows_a_frame_with_a_wrong_checksum_comes_through() -> None:
    bad_frame, right = encode_frame(HEADERS, b"{}")[:-4] + b"sk-c", encode_frame(HEADERS, b"{}")
    reads, count = redact_stream([bad_frame + right, right], [b"sk-canary01"])
    assert [read.received_bytes for read in reads] == [bad_frame + right, right]
    assert count == 0


@each_row("payload", [b"{}", b"<%b>" % KEY.encode(), bedrock_payload(KEY.encode())])
def test_no_byte_of_a_read_is_copied_for_each_frame_in_it(payload: bytes) -> None:
    copied_bytes = 0

    class CopyCounter(bytearray):
        def __getitem__(self, at: Any) -> Any:
            nonlocal copied_bytes
            part = super().__getitem__(at)
            copied_bytes += len(part) if isinstance(at, slice) else 1
            return part

    data = encode_frame(HEADERS, payload) * 1000
    frames = FrameRedactor(redactor_of([KEY.encode()]))
    frames._pending = CopyCounter()
    pieces = [*frames.feed(Read(1.0, data)), *frames.flush()]
    assert count_frame_placeholders([Read(1.0, piece.received_bytes) for piece in pieces]) == (
        0 if payload == b"{}" else 1000
    )
    assert len(data) <= copied_bytes < 4 * len(data)


def test_without_secrets_nothing_is_held_back() -> None:
    frames = FrameRedactor(redactor_of(()))
    read = Read(1.0, encode_frame(HEADERS, b"{}")[:20])
    assert frames.feed(read) == [RedactedPiece(read.at_ms, read.received_bytes)]
    assert frames.flush() == []


@each_row("missing_bytes", range(1, 40))
def test_a_cut_frame_stays_incomplete(missing_bytes: int) -> None:
    text = b'{"text":"%b' % ESCAPED_KEY
    payload = bedrock_payload(text + b"x" * 60)
    cut_frame = encode_frame(HEADERS, payload)[:-missing_bytes]
    reads, count = redact_stream([cut_frame])
    [cut_message] = framing.split_messages("eventstream", body(reads))
    assert parse_frame(cut_message) is None
    size = int.from_bytes(cut_message[:4], "big")
    assert len(cut_message) < size  # clients wait for more, as they did
    assert count == count_frame_placeholders(reads) == 1


def test_a_secret_is_found_in_base64_that_was_cut() -> None:
    payload = bedrock_payload(b"ab" + KEY.encode() + b"cdefgh")
    whole = encode_frame(HEADERS, payload)
    base64_start = whole.index(b64encode(b"ab" + KEY.encode())[:8])
    for length in range(base64_start, len(whole)):
        reads, _ = redact_stream([whole[:length]])
        found = body(reads)[base64_start:].partition(b'"')[0].rstrip(b"=")
        assert KEY.encode() not in b64decode(found + b"A" * (-len(found) % 4))


def test_a_wrong_checksum_stays_wrong() -> None:
    whole = encode_frame(HEADERS, b"<%b>" % KEY.encode())
    reads, count = redact_stream(
        [whole[:-1] + bytes([whole[-1] ^ 1]), encode_frame(HEADERS, b"{}")]
    )
    redacted_frame = encode_frame(HEADERS, b"<[redacted]>")
    assert body(reads[:1]) == redacted_frame[:-1] + bytes([redacted_frame[-1] ^ 1])
    assert parse_frames(body(reads)) == [None, Frame(HEADERS, b"{}")]
    assert count == 1


@each_row(
    "data",
    [
        b"<html>%b</html>" % KEY.encode(),
        KEY.encode(),
        encode_frame(HEADERS, b"{}") + b"not a frame " + KEY.encode() + b" " * 20 + KEY.encode(),
        encode_frame(HEADERS, b"{}") + b"\xff\xff\xff\xff" + KEY.encode(),
    ],
    ids=["a page", "a secret alone", "a page behind a frame", "a length without a checksum"],
)
def test_what_is_no_frame_is_redacted_as_bytes(data: bytes) -> None:
    for at in range(len(data) + 1):
        reads, count = redact_stream(split_at(data, [at]))
        assert body(reads) == data.replace(KEY.encode(), PLACEHOLDER_BYTES)
        assert count == data.count(KEY.encode())


def test_what_is_no_frame_is_not_held_back() -> None:
    frames = FrameRedactor(redactor_of(SECRETS))
    assert frames.feed(Read(1.0, b"<html> and so on")) == [RedactedPiece(1.0, b"<html> and so on")]
    assert frames.feed(Read(2.0, b"!")) == [RedactedPiece(2.0, b"!")]


def test_a_frame_longer_than_any_client_takes_is_not_held_back() -> None:
    oversized_frame = encode_frame((), b"\0" * (25 * 1024 * 1024))
    frames = FrameRedactor(redactor_of(SECRETS))
    assert frames.feed(Read(1.0, oversized_frame[:100])) == [
        RedactedPiece(1.0, oversized_frame[:100])
    ]


def test_a_header_that_cannot_hold_a_placeholder_is_redacted_as_bytes() -> None:
    name = "12345678" * 31
    reads, count = redact_stream([encode_frame(((name, ""),), b"{}")], [b"12345678"])
    assert b"12345678" not in body(reads)
    assert body(reads).count(PLACEHOLDER_BYTES) == count == 31


def test_a_header_without_room_does_not_leak_secrets_of_other_headers_and_the_payload() -> None:
    name, text = "12345678" * 31, b"xx12345678yy"
    reads, count = redact_stream(
        [encode_frame(((name, ""), ("x", text.decode())), bedrock_payload(text))], [b"12345678"]
    )
    assert b64encode(text) not in body(reads)
    assert b64encode(b"xx[redacted] yy") in body(reads)
    assert b"\x01x\x07\x00\x0exx[redacted]yy" in body(reads)
    assert count == 33


def test_a_secret_across_headers_and_payload_is_replaced() -> None:
    reads, count = redact_stream(
        [encode_frame((("a", "sk-can"),), b"ary-0123")], [b"sk-canary-0123"]
    )
    assert b"canary" not in body(reads)
    assert count == 1


def test_headers_that_are_malformed_are_redacted_as_bytes() -> None:
    whole = encode_frame((("a", f"{KEY}."),), b"<%b>" % KEY.encode())
    at = whole.index(b"\x01a\x07")
    broken = whole[:at] + b"\xff" + whole[at + 1 :]
    reads, count = redact_stream([broken])
    assert KEY.encode() not in body(reads)
    assert count == 2


# --- any stream, split anywhere, with secrets anywhere ------------------------------------------

KEY_LETTERS: Final = 'klm/+"\\é'
"""Letters of which a frame's numbers, or base64 of other text, hardly ever make a secret."""

keys = st.lists(st.text(KEY_LETTERS, min_size=8, max_size=14), min_size=1, max_size=3)


def spellings_of(key_texts: Iterable[str]) -> list[bytes]:
    """Every spelling of these keys."""
    headers = tuple(("x-api-key", key.encode().decode("latin-1")) for key in key_texts)
    return sorted(request_credential_spellings(Request("POST", "/x", "", headers, b"")))


@st.composite
def streams_with_secrets(draw: st.DrawFn, secrets: Sequence[bytes]) -> tuple[bytes, bytes]:
    """A stream of frames, and its expected stored form."""
    text = st.lists(
        st.sampled_from(secrets) | st.text("klm{}:, é", max_size=12).map(str.encode), max_size=5
    ).map(b"".join)
    redact_bytes = redactor_of(secrets).redact
    written = stored = b""
    for _ in range(draw(st.integers(0, 4))):
        payload, value = draw(text), draw(text)
        redacted = redact_bytes(payload)
        if draw(st.booleans()):
            payload, redacted = bedrock_payload(payload), bedrock_payload(redacted)
        written += encode_frame((("k", "v"), ("x", value.decode())), payload)
        stored += encode_frame((("k", "v"), ("x", redact_bytes(value).decode())), redacted)
    return written, stored


@given(keys.map(spellings_of).filter(bool), st.data())
def test_no_secret_survives_in_any_stream_however_it_is_cut(
    secrets: list[bytes], drawn: st.DataObject
) -> None:
    written, expected = drawn.draw(streams_with_secrets(secrets))
    pieces = drawn.draw(splits(written))

    reads, count = redact_stream(pieces, secrets)

    assert list(map(unpacked_frame, parse_frames(body(reads)))) == list(
        map(unpacked_frame, parse_frames(expected))
    )
    assert count == count_frame_placeholders(reads)
    unpacked = b"".join(
        b64decode(item.payload[10:].partition(b'"')[0])
        for item in filter(None, parse_frames(body(reads)))
        if item.payload.startswith(b'{"bytes":"')
    )
    assert not [secret for secret in secrets if secret in body(reads) + b"\0" + unpacked]
    assert {read.at_ms for read in reads} <= {float(at) for at, piece in enumerate(pieces) if piece}
    assert [read.at_ms for read in reads] == sorted(read.at_ms for read in reads)


@given(keys.map(spellings_of).filter(bool), st.data())
def test_what_is_stored_does_not_depend_on_the_reads(
    secrets: list[bytes], drawn: st.DataObject
) -> None:
    written, _ = drawn.draw(streams_with_secrets(secrets))
    broken = written[: drawn.draw(st.integers(0, len(written)))]
    garbage = st.sampled_from([*secrets, b"", b"\0" * 20])
    sent = broken + drawn.draw(garbage) + drawn.draw(garbage)

    reads, count = redact_stream(drawn.draw(splits(sent)), secrets)

    single_read, single_count = redact_stream([sent], secrets)
    assert (body(reads), count) == (body(single_read), single_count)
    assert not [secret for secret in secrets if secret in body(reads)]


@given(st.binary(max_size=200), st.data())
def test_bytes_without_secrets_come_through_at_their_times(
    data: bytes, drawn: st.DataObject
) -> None:
    sent = drawn.draw(
        st.sampled_from([data, encode_frame(HEADERS, data), encode_frame(HEADERS, data) + data])
    )
    pieces = drawn.draw(splits(sent))
    reads, count = redact_stream(pieces)
    assert [(read.at_ms, read.received_bytes) for read in reads] == [
        (float(at), piece) for at, piece in enumerate(pieces) if piece
    ]
    assert count == 0
