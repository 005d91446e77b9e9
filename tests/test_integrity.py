"""What a cassette that reads well may still have wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cassette_builders import META, REQUEST, written
from llm_proxy import matching
from llm_proxy.cassette import Meta, StoredRequest, read_cassette
from llm_proxy.integrity import LibraryLocation, integrity_complaints
from llm_proxy.matching import KEY_RULES

KEY = matching.request_key("openai", REQUEST)
RIGHT = replace(META, key=KEY, key_rules=KEY_RULES)
NOWHERE = LibraryLocation(key_prefix=None, session=None)


def said(
    meta: Meta = RIGHT, request: StoredRequest = REQUEST, place: LibraryLocation = NOWHERE
) -> list[str]:
    content = written(meta=meta, request=request)
    return list(integrity_complaints(read_cassette("a.jsonl", content), place))


@pytest.mark.parametrize(
    "place",
    [NOWHERE, LibraryLocation(KEY[:16], "default"), LibraryLocation(None, "default")],
    ids=["a file alone", "in its library", "under another name"],
)
def test_a_cassette_in_its_place_has_nothing_wrong(place: LibraryLocation) -> None:
    assert said(place=place) == []


@pytest.mark.parametrize(
    ("meta", "request_", "place", "words"),
    [
        (replace(RIGHT, dialect="telex"), REQUEST, NOWHERE, "dialect 'telex' is not one"),
        (
            RIGHT,
            REQUEST,
            LibraryLocation("0" * 16, None),
            f"rename the file to {KEY[:16]}-<take>.jsonl",
        ),
        (RIGHT, replace(REQUEST, path="/v1/other"), NOWHERE, "edited by hand"),
        (replace(RIGHT, provider="groq"), REQUEST, NOWHERE, "edited by hand"),
        (replace(RIGHT, key_rules=KEY_RULES + 1), REQUEST, NOWHERE, "upgrade llm-proxy"),
        (RIGHT, REQUEST, LibraryLocation(None, "alice"), "move it below the library's own folder"),
        (
            replace(RIGHT, session="bob"),
            REQUEST,
            LibraryLocation(None, "alice"),
            "move it below @bob/",
        ),
    ],
    ids=["dialect", "name", "request", "provider", "rules", "session", "other session"],
)
def test_each_thing_that_is_wrong_is_said_once(
    meta: Meta, request_: StoredRequest, place: LibraryLocation, words: str
) -> None:
    [complaint] = said(meta, request_, place)
    assert words in complaint


@pytest.mark.parametrize("name", ["../x", "a b", "$(reboot)", ".", "", "a/b", "@a", "-rf"])
@pytest.mark.parametrize(
    "place", [NOWHERE, LibraryLocation(KEY[:16], "default")], ids=["alone", "placed"]
)
def test_a_session_that_is_no_name_is_no_place_to_move_a_file_to(
    name: str, place: LibraryLocation
) -> None:
    [complaint] = said(replace(RIGHT, session=name), place=place)
    assert complaint == (
        f"no session can be called {name!r}: line 1 was edited by hand; record it again"
    )


def test_a_dialect_that_is_a_path_is_only_quoted() -> None:
    [complaint] = said(replace(RIGHT, dialect="../x; reboot"))
    assert complaint.startswith("dialect '../x; reboot' is not one that this version knows: ")


def test_a_very_long_name_is_cut() -> None:
    for complaint in said(replace(RIGHT, session="x" * 999, dialect="y" * 999)):
        assert len(complaint) < 400


def test_a_key_of_older_rules_is_not_recomputed() -> None:
    assert said(replace(RIGHT, key="f" * 64, key_rules=0)) == []


@pytest.mark.parametrize(
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
    assert said(request=request_) == []


def test_the_key_of_older_redaction_rules_is_that_of_the_stored_request() -> None:
    """By rules 1, a key was made after the client's credentials were replaced in the request."""
    request = replace(REQUEST, body=b'{"key":"[redacted]"}', redacted=1)
    meta = replace(RIGHT, key=matching.request_key("openai", request), redaction_rules=1)
    assert said(meta, request) == []
    assert len(said(replace(meta, key=KEY), request)) == 1


def test_everything_that_is_wrong_is_said() -> None:
    meta = replace(RIGHT, dialect="telex", session="bob")
    assert len(said(meta, replace(REQUEST, body=b"{}"), LibraryLocation("0" * 16, "alice"))) == 4
