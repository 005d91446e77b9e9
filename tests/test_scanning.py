"""A scan finds a secret wherever it is in a cassette or another file, and never shows it."""

from __future__ import annotations

import base64
import gzip
import json
import os
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

import corpus
from bedrock_streams import invoke_stream
from case_tables import each_row
from cassette_builders import HEAD, META, READS, REQUEST, encode_cassette, make_cassette
from llm_proxy.errors import UsageError
from llm_proxy.exchange import Read
from llm_proxy.redaction import DEFAULT_REDACTION, ResponseRedaction, parse_redaction_rules
from llm_proxy.scanning import RULE_DESCRIPTIONS, FileScan, SecretScan
from llm_proxy.shell import scanning as files

KEY: Final = "sk-ant-" + "api03-" + "aB3dE5fG7hJ9kL1mN2pQ4rS6tU8v"
JSON_HEADERS: Final = (("content-type", "application/json"),)
SCAN: Final = SecretScan(DEFAULT_REDACTION, DEFAULT_REDACTION.finder())


def event(text: str, **fields: object) -> bytes:
    """One chunk of a chat stream."""
    choice = {"index": 0, "delta": {"content": text}}
    return b"data: " + json.dumps(fields | {"choices": [choice]}).encode() + b"\n\n"


def with_request(**fields: Any) -> bytes:
    """A cassette whose request has these fields."""
    return encode_cassette(request=replace(REQUEST, **fields))


def with_body(document: object) -> bytes:
    return with_request(body=json.dumps(document).encode())


def with_head(*headers: tuple[str, str], reason: str = "OK") -> bytes:
    return encode_cassette(head=replace(HEAD, reason=reason, headers=(*HEAD.headers, *headers)))


def with_response(*messages: bytes, codec: str = "sse") -> bytes:
    """A cassette whose response consists of these messages."""
    return encode_cassette([Read(20.0, b"".join(messages))], codec=codec)


def places(content: bytes) -> list[tuple[int, str, str]]:
    """The line, the rule and the place of each finding."""
    found = SCAN.scan_file("some.jsonl", content).findings
    return [(finding.line, finding.rule, finding.place) for finding in found]


def test_a_cassette_without_secrets_is_clean() -> None:
    scan = SCAN.scan_file("some.jsonl", encode_cassette(READS))

    assert scan == FileScan((), is_cassette=True, has_older_rules=True)


@each_row(
    ("content", "line", "rule", "place"),
    [
        (encode_cassette(meta=msgspec.structs.replace(META, model=KEY)), 1, "anthropic-key",
         "line 1"),
        (with_request(path=f"/v1/{KEY}"), 2, "anthropic-key", "request.path"),
        (with_request(query=f"a={KEY}"), 2, "anthropic-key", "request.query"),
        (with_request(query="a=1&password=correct-horse"), 2, "secret-fields",
         "request.query password"),
        (with_request(headers=(("accept", KEY),)), 2, "anthropic-key", "request.headers accept"),
        (with_request(headers=(("x-team", "blue-team"),)), 2, "headers", "request.headers x-team"),
        (with_body({"messages": [{"content": f"my key is {KEY}"}]}), 2, "anthropic-key",
         "request.body $.messages[0].content"),
        (with_body({"a b": json.dumps({"k": KEY})}), 2, "anthropic-key", "request.body $['a b']"),
        (with_body({"api_key": "correct-horse-9x8y7z"}), 2, "secret-fields",
         "request.body $.api_key"),
        (with_request(body=b'{"\\ud800": "%b"}' % KEY.encode()), 2, "anthropic-key",
         "request.body $['?']"),
        (with_body({KEY: 1}), 2, "anthropic-key", "request.body"),
        (with_request(body=b"a=1&token=correct-horse-9x",
                      headers=(("content-type", "application/x-www-form-urlencoded"),)),
         2, "secret-fields", "request.body token"),
        (with_head(("retry-after", KEY)), 3, "anthropic-key", "response.headers retry-after"),
        (with_head(("set-cookie", "theme=dark")), 3, "headers", "response.headers set-cookie"),
        (with_head(("x-request-id", "req_1")), 3, "headers", "response.headers x-request-id"),
        (with_head(reason=KEY), 3, "anthropic-key", "response.reason"),
        (with_response(event("Hello"), event(f"it is {KEY}")), 5, "anthropic-key",
         "response message 2 $.choices[0].delta.content"),
        (with_response(event("it is "), event(KEY[:9]), event(KEY[9:20]), event(KEY[20:]),
                       event(".")), 5, "anthropic-key",
         "response text $.choices[0].delta.content, messages 2 to 4"),
        (with_response(event("a", user=KEY), event("b", user=KEY), event("c", user=KEY)), 4,
         "anthropic-key", "response message 1 $.user, and 2 more"),
        (with_response(event("a"), f": {KEY}\n\n".encode()), 5, "anthropic-key",
         "response message 2"),
        (with_response(event(base64.b64encode(f"key {KEY}".encode()).decode())), 4,
         "anthropic-key", "response message 1 $.choices[0].delta.content"),
        (with_response(json.dumps({"error": {"message": KEY}}).encode(), codec="whole"), 4,
         "anthropic-key", "response message 1 $.error.message"),
        (with_response(invoke_stream({"completion": f"so {KEY}"}), codec="eventstream"), 4,
         "anthropic-key", "response message 1 $.completion"),
        (with_response(b"\xff\xfe " + KEY.encode(), codec="whole"), 4, "anthropic-key",
         "response message 1"),
    ],
)  # fmt: skip
def test_a_secret_is_found_wherever_it_is(content: bytes, line: int, rule: str, place: str) -> None:
    assert places(content) == [(line, rule, place)]


@each_row(
    ("content", "line"),
    [
        (f"a: 1\nb: {KEY}\n".encode(), 2),
        (b'{"a": "' + KEY.replace("-", "\\u002d").encode() + b'"}', 1),
        (b"\n\n" + base64.b64encode(KEY.encode()), 3),
        (b"\n" + KEY.encode().hex().encode(), 2),
        (b"\x00\x01\x02" + KEY.encode() + b"\x00", 1),
        (f"a\nset-cookie: __cf_bm={KEY[-20:]}; path=/\n".encode(), 2),
        (encode_cassette()[:-20] + b" " + KEY.encode(), 7),
    ],
)
def test_a_secret_in_another_file_is_found_in_its_line(content: bytes, line: int) -> None:
    findings = SCAN.scan_file("some.txt", content).findings

    assert [(finding.line, finding.place) for finding in findings] == [(line, "")]


def test_the_value_is_not_shown() -> None:
    [finding] = SCAN.scan_file("some.txt", KEY.encode()).findings
    [short] = SCAN.scan_file("some.jsonl", with_body({"password": "hunter2"})).findings

    assert (finding.secret_start, finding.secret_chars) == ("sk-a", len(KEY))
    assert (short.secret_start, short.secret_chars) == ("h", 7)


def test_a_damaged_cassette_is_an_error_and_is_scanned_as_text() -> None:
    scan = SCAN.scan_file("some.jsonl", with_body({"a": KEY})[:-9])

    assert "the file is truncated" in str(scan.error)
    assert [finding.rule for finding in scan.findings] == ["anthropic-key"]


def test_rules_of_a_project_apply() -> None:
    rules = parse_redaction_rules(["email", "$.metadata.user"], ["anthropic-key"])
    body = {"metadata": {"user": "me"}, "a": "me@example.com", "b": KEY}

    scan = SecretScan(rules, rules.finder()).scan_file("some.jsonl", with_body(body))

    assert [(finding.rule, finding.place) for finding in scan.findings] == [
        ("field", "request.body $.metadata.user"), ("email", "request.body $.a"),
    ]  # fmt: skip


def test_the_rest_of_a_secret_that_was_cut_is_removed_alone() -> None:
    cassette = make_cassette(event("key [redacted:anthropic-key]") + event("N2pQ4rS6") + event("."))

    end = msgspec.structs.replace(cassette.response_end, redacted_count=1)
    recorded = replace(cassette, response_end=end)
    stored = ResponseRedaction(DEFAULT_REDACTION, SCAN.finder, follows_stream=True)
    scrubbed = ResponseRedaction(DEFAULT_REDACTION, SCAN.finder)

    assert b"N2pQ4rS6" not in stored.redact(recorded, ()).response_body
    assert scrubbed.redact(cassette, ()) is cassette
    assert list(SCAN.scan_cassette(cassette)) == []


def test_a_path_behind_a_project_is_no_rest_of_a_secret() -> None:
    text = "projects/[redacted:google-project]/locations/us-central1"

    assert places(with_response(event(text))) == []


def test_files_are_found_below_folders_without_git_and_links(tmp_path: Path) -> None:
    for name in ("a.jsonl", "b/c.yaml", ".git/config", ".hidden/d"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("text")
    (tmp_path / "link").symlink_to("/etc")
    (tmp_path / "file-link").symlink_to(tmp_path / "a.jsonl")
    os.mkfifo(tmp_path / "pipe")

    found = [str(path.relative_to(tmp_path)) for path in files.files_below([tmp_path])]

    assert found == ["a.jsonl", ".hidden/d", "b/c.yaml"]


def test_a_folder_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    for name in ("a/1", "b/2"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).touch()
    found = files.files_below([tmp_path])
    assert next(found) == tmp_path / "a/1"
    shutil.rmtree(tmp_path / "b")

    with pytest.raises(UsageError, match=r"cannot read \S+/b: No such file"):
        next(found)


def test_gzip_is_decoded(tmp_path: Path) -> None:
    path = tmp_path / "vcr.yaml.gz"
    path.write_bytes(gzip.compress(f"key: {KEY}".encode()))

    [finding] = SCAN.scan_file(str(path), files.read_scanned_file(path)).findings

    assert finding.rule == "anthropic-key"


@pytest.mark.thorough
@pytest.mark.corpus
def test_what_is_found_in_the_corpus_is_as_tabled() -> None:
    """All of it was reviewed: cookies and ids that the authors of these files left in them."""
    found: Counter[str] = Counter()
    for path in files.files_below([corpus.RAW]):
        scan = SCAN.scan_file(str(path), files.read_scanned_file(path))
        found.update(finding.rule for finding in scan.findings)

    assert found == {
        "cloudflare-cookie": 338,
        "openai-project": 209,
        "google-project": 38,
        "openai-user": 35,
        "aws-account": 1,
    }


def test_every_rule_of_a_finding_is_described() -> None:
    assert {"anthropic-key", "secret-fields", "headers", "environment"} <= set(RULE_DESCRIPTIONS)
