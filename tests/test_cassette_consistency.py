"""Consistency of a cassette that parses without errors: its name, key and folder."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from case_tables import each_row
from cassette_builders import META, REQUEST, encode_cassette
from llm_proxy import matching
from llm_proxy.cassette import CassetteMeta, StoredRequest, parse_cassette
from llm_proxy.cassette_consistency import consistency_problems
from llm_proxy.matching import KEY_RULES_VERSION, RuleSet
from llm_proxy.redaction import NO_REDACTION

KEY = matching.request_key("openai", REQUEST)
VALID_META = msgspec.structs.replace(META, key=KEY, key_rules_version=KEY_RULES_VERSION)
NO_LOCATION = (None, None)


def complaints(
    meta: CassetteMeta = VALID_META,
    request: StoredRequest = REQUEST,
    place: tuple[str | None, str | None] = NO_LOCATION,
) -> list[str]:
    content = encode_cassette(meta=meta, request=request)
    return list(consistency_problems(parse_cassette("a.jsonl", content), *place))


@each_row(
    "place",
    [NO_LOCATION, (KEY[:16], "default"), (None, "default")],
    ids=["a file alone", "in its library", "under another name"],
)
def test_a_cassette_in_its_place_has_no_defects(place: tuple[str | None, str | None]) -> None:
    assert complaints(place=place) == []


@each_row(
    ("meta", "request_", "place", "words"),
    [
        (
            msgspec.structs.replace(VALID_META, dialect="telex"),
            REQUEST,
            NO_LOCATION,
            "the dialect 'telex' is not supported",
        ),
        (
            VALID_META,
            REQUEST,
            ("0" * 16, None),
            f"rename the file to {KEY[:16]}-<take>.jsonl",
        ),
        (
            VALID_META,
            replace(REQUEST, path="/v1/other"),
            NO_LOCATION,
            "the key of the stored request is",
        ),
        (
            msgspec.structs.replace(VALID_META, provider="groq"),
            REQUEST,
            NO_LOCATION,
            "the key of the stored request is",
        ),
        (
            msgspec.structs.replace(VALID_META, key_rules_version=KEY_RULES_VERSION + 1),
            REQUEST,
            NO_LOCATION,
            "upgrade llm-proxy",
        ),
        (
            VALID_META,
            REQUEST,
            (None, "alice"),
            "move the file out of the folder @alice/",
        ),
        (
            msgspec.structs.replace(VALID_META, session="bob"),
            REQUEST,
            (None, "alice"),
            "move the file into the folder @bob/",
        ),
    ],
    ids=["dialect", "name", "request", "provider", "rules", "session", "other session"],
)
def test_each_defect_is_reported_once(
    meta: CassetteMeta, request_: StoredRequest, place: tuple[str | None, str | None], words: str
) -> None:
    [complaint] = complaints(meta, request_, place)
    assert words in complaint


@each_row("name", ["../x", "a b", "$(reboot)", ".", "", "a/b", "@a", "-rf"])
@each_row("place", [NO_LOCATION, (KEY[:16], "default")], ids=["alone", "placed"])
def test_an_invalid_session_name_is_not_suggested_as_a_folder(
    name: str, place: tuple[str | None, str | None]
) -> None:
    [complaint] = complaints(msgspec.structs.replace(VALID_META, session=name), place=place)
    assert complaint == (f"{name!r} is not a valid session name; record the cassette again")


def test_a_dialect_that_is_a_path_is_only_quoted() -> None:
    [complaint] = complaints(msgspec.structs.replace(VALID_META, dialect="../x; reboot"))
    assert complaint.startswith(
        "the dialect '../x; reboot' is not supported by this version of llm-proxy; "
    )


def test_a_very_long_name_is_cut() -> None:
    for complaint in complaints(
        msgspec.structs.replace(VALID_META, session="x" * 999, dialect="y" * 999)
    ):
        assert len(complaint) < 400


def test_a_key_of_older_rules_is_not_recomputed() -> None:
    assert complaints(msgspec.structs.replace(VALID_META, key="f" * 64, key_rules_version=0)) == []


@each_row(
    "request_",
    [
        replace(REQUEST, body=b"is [redacted-operator]"),
        replace(REQUEST, path="/[redacted-operator]"),
        replace(REQUEST, body=b"is [redacted-client]"),
        replace(REQUEST, query="q=[redacted-client]"),
        replace(REQUEST, headers=(("anthropic-beta", "[redacted-client]"),)),
    ],
    ids=["body", "path", "body of the client's", "query", "header"],
)
def test_the_key_of_a_request_that_lost_a_secret_after_it_was_keyed_is_not_recomputed(
    request_: StoredRequest,
) -> None:
    assert complaints(request=request_) == []


def test_the_key_of_older_redaction_rules_is_that_of_the_stored_request() -> None:
    """Redaction rules 1 replaced the client's credentials before the key was computed."""
    request = replace(REQUEST, body=b'{"key":"[redacted]"}', redacted_count=1)
    meta = msgspec.structs.replace(
        VALID_META, key=matching.request_key("openai", request), redaction_rules_version=1
    )
    assert complaints(meta, request) == []
    assert len(complaints(msgspec.structs.replace(meta, key=KEY), request)) == 1


def test_a_secret_that_older_rules_left_in_a_request_is_no_defect_of_its_key() -> None:
    request = replace(REQUEST, body=b'{"api_key":"correct-horse-9x8y7z"}')
    rules = RuleSet(redaction=NO_REDACTION)
    meta = msgspec.structs.replace(
        VALID_META, key=matching.request_key("openai", request, rules), redaction_rules_version=2
    )
    assert complaints(meta, request) == []


def test_all_defects_are_reported() -> None:
    meta = msgspec.structs.replace(VALID_META, dialect="telex", session="bob")
    assert len(complaints(meta, replace(REQUEST, body=b"{}"), ("0" * 16, "alice"))) == 4
