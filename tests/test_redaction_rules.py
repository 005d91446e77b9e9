"""The redaction rules of a run: what they replace, how options change them, what enters a key."""

from __future__ import annotations

import json
import logging
import re
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import msgspec
import pytest

from case_tables import each_row
from cassette_builders import make_cassette
from in_process_proxy import load_cassettes, proxy
from linear_time import assert_linear
from llm_proxy.cassette import StoredRequest
from llm_proxy.errors import UsageError
from llm_proxy.exchange import Read, Request
from llm_proxy.matching import NO_RULES, RuleSet, request_key
from llm_proxy.matching.option_grammar import parse_rules
from llm_proxy.pacing import InstantPace
from llm_proxy.redaction import (
    DEFAULT_REDACTION,
    RedactionRules,
    Redactor,
    ResponseRedaction,
    environment_secret_spellings,
    parse_redaction_rules,
    redact_request,
    request_credential_spellings,
)
from llm_proxy.redaction.patterns import SECRET_PATTERNS
from llm_proxy.redaction.rules import FIELD_NAMES_RULE
from raw_http import build_http_request, send_request
from stored_cassettes import DONE_EVENT, chat_event
from stub_upstream import chunked, upstream
from waiting import wait_until

KEY: Final = "sk-" + "ant-api03-aB3dE5fG7hJ9kL1mN2pQ4rS6"
JSON_TYPE: Final = (("content-type", "application/json"),)
FORM_TYPE: Final = (("content-type", "application/x-www-form-urlencoded"),)
SECURITY_PAGE: Final = (
    Path(__file__).parent.parent / "docs" / "explanation" / "security.md"
).read_text()


def redacted_body(body: Any, rules: RedactionRules = DEFAULT_REDACTION) -> Any:
    """The JSON body of a request after redaction."""
    data = json.dumps(body).encode()
    redacted = redact_request(StoredRequest("POST", "/v1/x", "", JSON_TYPE, data), rules)
    assert (redacted.redacted_count > 0) == (redacted.body != data)
    return json.loads(redacted.body)


@each_row(
    "field",
    [
        "api_key", "apiKey", "API_KEY", "x-api-key", "openai_api_key", "access_key", "secret_key",
        "private_key", "access_token", "refreshToken", "id_token", "authToken", "bot_token",
        "authorization_token", "authorization", "Authorization", "password", "db_password",
        "passphrase", "cookie", "client_secret", "clientSecret", "webhook_secret", "credentials",
        "connection_string", "connectionString", "DATABASE_URL",
    ],
)  # fmt: skip
def test_the_value_of_a_field_with_the_name_of_a_secret_is_replaced(field: str) -> None:
    sent = {"model": "m", "tools": [{"type": "mcp", field: "hunter2"}]}
    expected = {"model": "m", "tools": [{"type": "mcp", field: "[redacted:secret-fields]"}]}
    assert redacted_body(sent) == expected
    arguments = {"messages": [{"tool_calls": [{"arguments": json.dumps(sent)}]}]}
    stored = redacted_body(arguments)["messages"][0]["tool_calls"][0]["arguments"]
    assert json.loads(stored) == expected


@each_row(
    ("field", "value"),
    [
        ("max_tokens", 5),
        ("prompt_cache_key", "a8f3c2d19b7e6f5048d1c3b2"),
        ("signature", "EqQBCkYIARgCKkB1x9f2c3d4"),
        ("encrypted_content", "gAAAAABo1x9f2c3d4e5f6a7b8"),
        ("thoughtSignature", "CpcBAVSoXO5q2w3e4r5t6y7u8i9o0p"),
        ("page_token", "a8f3c2d19b7e6f5048d1c3b2"),
        ("key", "a8f3c2d19b7e6f5048d1c3b2"),
        ("token", " Hello"),
        ("secret", "of a good marriage"),
        ("auth", "required"),
        ("api_key", "not-needed"),
        ("api_key", ""),
        ("password", {"type": "string"}),
        ("password", True),
    ],
)
def test_another_field_keeps_its_value(field: str, value: Any) -> None:
    assert redacted_body({"input": [{field: value}]}) == {"input": [{field: value}]}


def test_a_field_of_an_ambiguous_name_is_a_secret_if_its_value_looks_random() -> None:
    assert redacted_body({"token": "a8f3c2d19b7e6f5048d1c3b2"}) == {
        "token": "[redacted:secret-fields]"
    }


def test_a_shape_names_what_it_was_even_in_a_secret_field() -> None:
    assert redacted_body({"authorization": f"Bearer {KEY}"}) == {
        "authorization": "Bearer [redacted:anthropic-key]"
    }


@each_row(
    ("body", "expected"),
    [
        (b'{"password":"p1-hunter2","n":NaN}', b'{"password":"%b","n":NaN}'),
        (b'{"password":"p1-hunter2","password":"p2"}', b'{"password":"%b","password":"%b"}'),
        (b'\xef\xbb\xbf{"password":"hunter2"}', b'\xef\xbb\xbf{"password":"%b"}'),
        (b'{"password":"hunter2","text":"\xff"}', b'{"password":"%b","text":"\xff"}'),
        (b'{"a":1}\n{"password":"hunter2"}\n', b'{"a":1}\n{"password":"%b"}\n'),
        (b'{"api\\u005fkey":"hunter2"}', b'{"api\\u005fkey":"%b"}'),
        (b'{"api_keys": [ "a1", "b2" ], "c": "d"}', b'{"api_keys": [ "%b", "%b" ], "c": "d"}'),
        (b'{"password":[["x"],"y"],"z":["w"]}', b'{"password":[["x"],"y"],"z":["w"]}'),
    ],
)
def test_a_secret_field_is_found_in_what_no_parser_accepts(body: bytes, expected: bytes) -> None:
    redacted = redact_request(
        StoredRequest("POST", "/v1/x", "", JSON_TYPE, body), DEFAULT_REDACTION
    )
    placeholder = b"[redacted:secret-fields]"
    assert redacted.body == expected.replace(b"%b", placeholder)


def test_a_multipart_form_is_redacted_by_the_names_of_its_fields() -> None:
    def form(secret: str) -> bytes:
        part = '--b\r\nContent-Disposition: form-data; name="%s"\r\n%s\r\n%s\r\n'
        fields = (("api_key", "", secret), ("model", "Content-Type: text/plain\r\n", "whisper-1"))
        return ("".join(part % each for each in fields) + "--b--\r\n").encode()

    headers = (("content-type", "multipart/form-data; boundary=b"),)
    request = StoredRequest("POST", "/v1/audio/transcriptions", "", headers, form("hunter2"))
    assert redact_request(request, DEFAULT_REDACTION).body == form("[redacted:secret-fields]")


def test_a_form_is_redacted_by_the_names_of_its_fields() -> None:
    form = (("content-type", "application/x-www-form-urlencoded"),)
    request = StoredRequest("POST", "/token", "", form, b"grant_type=code&client_secret=hunter2")
    redacted = redact_request(request, DEFAULT_REDACTION)
    assert redacted.body == b"grant_type=code&client_secret=[redacted]"


def test_everything_else_of_a_body_stays_as_it_was_written() -> None:
    body = b'{ "api_key" : "hunter2",\n "n": 1.50, "big": 12345678901234567890, "s": "\\u00e9\\/" }'
    redacted = redact_request(
        StoredRequest("POST", "/v1/x", "", JSON_TYPE, body), DEFAULT_REDACTION
    )
    assert redacted.body == body.replace(b"hunter2", b"[redacted:secret-fields]")


@each_row(
    "before",
    [
        "\u201c",
        "\u4e2d",
        "\U0001f600",
        "\u00a0",
        "\x1b[1m",
        "\x1b[0;31m",
        "caf\u00e9",
        "\n",
        "=",
        "'",
    ],
)
def test_a_key_is_found_behind_any_character_however_json_writes_it(before: str) -> None:
    for is_ascii in (True, False):
        body = json.dumps({"input": f"x{before}{KEY}"}, ensure_ascii=is_ascii).encode()
        request = StoredRequest("POST", "/v1/x", "", JSON_TYPE, body)
        redacted = json.loads(redact_request(request, DEFAULT_REDACTION).body)
        assert redacted == {"input": f"x{before}[redacted:anthropic-key]"}
    if not before.startswith("\x1b"):
        form = f"q={quote(before + KEY)}".encode()
        request = StoredRequest("POST", "/v1/x", "", FORM_TYPE, form)
        assert b"[redacted:anthropic-key]" in redact_request(request, DEFAULT_REDACTION).body


@each_row("before", ["x", "\\u0061", "5"])
def test_a_keyword_within_a_word_is_none(before: str) -> None:
    body = f'{{"input":"{before}{KEY}"}}'.encode()
    request = StoredRequest("POST", "/v1/x", "", JSON_TYPE, body)
    assert redact_request(request, DEFAULT_REDACTION) is request


@each_row(
    "text",
    ["__cf_bm=" * 2000, ("__cf_bm=" * 2000).encode().hex(), "Bearer " * 3000, "\\" * 50_000,
     "[" * 1015 + '"' + KEY + '"' + "]" * 1015, '{"a":' * 1020 + "1" + "}" * 1020],
    ids=["cookies", "hexadecimal", "bearers", "backslashes", "lists", "objects"],
)  # fmt: skip
def test_no_text_is_too_deep_or_too_long(text: str) -> None:
    request = StoredRequest("POST", "/v1/x", "", JSON_TYPE, text.encode())
    assert KEY.encode() not in redact_request(request, DEFAULT_REDACTION).body
    redaction = ResponseRedaction(DEFAULT_REDACTION, DEFAULT_REDACTION.finder())
    answer = make_cassette(
        Redactor(DEFAULT_REDACTION.finder()).redact(text.encode()), codec="whole"
    )
    assert KEY.encode() not in redaction.redact(answer, ()).response_body


def test_hexadecimal_is_decoded_behind_what_looks_like_base64() -> None:
    redacted = redacted_body({"input": f"c2st/{KEY.encode().hex()}"})
    assert KEY.encode().hex() not in redacted["input"]


def test_a_credential_beyond_ascii_is_found_in_the_escapes_of_json() -> None:
    spellings = request_credential_spellings(
        Request(
            "POST",
            "/",
            "",
            (("x-api-key", "Gr\u00fc\u00dfe-4711-xY9z".encode().decode("latin-1")),),
            b"",
        )
    )
    assert rb"Gr\u00fc\u00dfe-4711-xY9z" in spellings
    assert rb"Gr\u00FC\u00DFe-4711-xY9z" in spellings


# --- rules of a project --------------------------------------------------------------------------

PROMPT: Final = {
    "customer": "4711",
    "metadata": {"user": "ann", "customer": ["4712"]},
    "text": "ann@example.com, ACME-12345678, /home/ann/x, +49 30 1234567",
}


@each_row(
    ("rules", "expected"),
    [
        ([], {}),
        (
            ["customer"],
            {
                "customer": "[redacted:field]",
                "metadata": {"user": "ann", "customer": ["[redacted:field]"]},
            },
        ),
        (
            ["$.metadata"],
            {"metadata": {"user": "[redacted:field]", "customer": ["[redacted:field]"]}},
        ),
        (["$..customer[0]"], {"metadata": {"user": "ann", "customer": ["[redacted:field]"]}}),
        (
            ["email", "home-paths", "phone", "regex=ACME-[0-9]{8}"],
            {
                "text": "[redacted:email], [redacted:regex], /home/[redacted:home-paths]/x, "
                "[redacted:phone]"
            },
        ),
    ],
)
def test_a_project_adds_rules(rules: list[str], expected: dict[str, Any]) -> None:
    assert redacted_body(PROMPT, parse_redaction_rules(rules)) == PROMPT | expected


@each_row(
    ("rules", "pieces"),
    [
        (["$.choices[*].delta.content"], ["[redacted:field]", "[redacted:field]"]),
        (["content"], ["[redacted:field]", ""]),
        (["$.metadata"], ["ACME-12", "345678!"]),
        (["regex=ACME-[0-9]{8}"], ["[redacted:regex]", "!"]),
    ],
)
def test_the_rules_of_a_project_hold_for_answers_too(rules: list[str], pieces: list[str]) -> None:
    redaction = parse_redaction_rules(rules)
    answer = make_cassette(chat_event("ACME-12") + chat_event("345678!") + DONE_EVENT)
    redacted = ResponseRedaction(redaction, redaction.finder()).redact(answer, ())
    expected = b"".join(map(chat_event, pieces)) + DONE_EVENT
    assert redacted.response_body == expected
    assert redacted.response_end.sha256 == sha256(expected).hexdigest()


@each_row("name", ["anthropic-key", FIELD_NAMES_RULE])
def test_a_project_disables_a_rule(name: str) -> None:
    body = {"text": KEY} if name == "anthropic-key" else {"password": "hunter2"}
    assert redacted_body(body) != body
    assert redacted_body(body, parse_redaction_rules(disabled=[name])) == body


@each_row(
    ("added", "disabled", "message"),
    [
        (["regex=("], [], "regex=( is not a valid RE2 pattern"),
        (["regex=x*"], [], "matches the empty string"),
        (["$.a["], [], "'$.a[' is not a valid JSONPath (RFC 9535): "),
        (["two words"], [], "'two words' is not a redaction rule; use email, phone, home-paths, "),
        ([], ["twilio"], "unknown redaction rule 'twilio'; did you mean 'twilio-id'?"),
        ([], ["x"], "unknown redaction rule 'x'; docs/explanation/security.md lists all rules"),
        ([], [""], "unknown redaction rule ''; "),
    ],
)
def test_an_invalid_rule_is_refused(added: list[str], disabled: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        parse_redaction_rules(added, disabled)


def test_rules_beyond_the_default_stand_in_line_1_and_are_read_from_there() -> None:
    redaction = parse_redaction_rules(["email", "$.a", "anthropic-key"], ["twilio-id"])
    rules = RuleSet(redaction=redaction)
    assert rules.rule_texts == ("redact=email", "redact=$.a", "no-redact=twilio-id")
    assert parse_rules(rules.rule_texts).redaction == redaction
    assert parse_rules(()).redaction == DEFAULT_REDACTION


def test_a_key_does_not_depend_on_secrets_that_the_rules_replace() -> None:
    def key(text: str, rules: RuleSet = NO_RULES) -> str:
        body = json.dumps({"model": "m", "input": text}).encode()
        return request_key("x", StoredRequest("POST", "/v1/x", "", JSON_TYPE, body), rules)

    assert key(f"use {KEY}") == key(f"use {KEY[:-4]}9zZ8") == key("use [redacted:anthropic-key]")
    assert key(f"use {KEY}") != key("use it")
    with_email = RuleSet(redaction=parse_redaction_rules(["email"]))
    assert key("to a@example.com") != key("to b@example.com")
    assert key("to a@example.com", with_email) == key("to b@example.com", with_email)


COPIES: Final = {
    "chat": b'"logprobs":{"content":[{"token":"%b","bytes":[115],"top_logprobs":[]}]}',
    "completions": b'"logprobs":{"tokens":["%b"],"top_logprobs":[{"%b":-1}]}',
    "gemini": b'"logprobsResult":{"chosenCandidates":[{"token":"%b"}]}',
    "transcription": b'"words":[{"word":"%b","start":0.5}]',
    "half of a character": b'"logprobs":{"content":[{"token":"\\ud83d%b"}]}',
}


@each_row("copies", COPIES.values(), ids=COPIES)
def test_tokens_that_repeat_a_secret_are_not_stored(copies: bytes) -> None:
    """Everything else of the document stays byte for byte: `0.10` and a repeated member too."""
    document = b'{"n":0.10,"m":12345678901234567890123,"a":1,"a":2,"text":"%b",%b,"z":[]}'
    copies = copies.replace(b"%b", KEY[:5].encode())
    redaction = ResponseRedaction(DEFAULT_REDACTION, DEFAULT_REDACTION.finder())

    def stored(text: str, codec: str = "whole", *, cut: int = 0) -> bytes:
        body = document % (text.encode(), copies)
        body = body[: len(body) - cut] if codec == "whole" else b"data: %b\n\n" % body
        return redact_answer(body, codec, redaction)

    for harmless in ("hello", "As [redacted] says, see [redacted:jwt]"):
        assert stored(harmless) == document % (harmless.encode(), copies)
    without = re.sub(rb"(:)[\[{].*", rb"\1null", copies)
    expected = document % (b"[redacted:anthropic-key]", without)
    assert stored(KEY) == expected
    assert stored(KEY, "sse") == b"data: %b\n\n" % expected
    assert stored(KEY, cut=12) == expected.replace(b',"z":[]}', b"")


def redact_answer(body: bytes, codec: str, redaction: ResponseRedaction) -> bytes:
    """The body as a recorder stores it."""
    redactor = Redactor(redaction.finder)
    cassette = make_cassette(redactor.redact(body), codec=codec)
    end = msgspec.structs.replace(cassette.response_end, redacted_count=redactor.replaced_count)
    return redaction.redact(replace(cassette, response_end=end), ()).response_body


@each_row(
    "text",
    ["see [redacted:jwt]|abc def", "W3JlZGFjdGVkOnhdIA==|Then", "[redacted:openai-key]|_backup"],
)
def test_placeholders_that_a_model_writes_are_text(text: str) -> None:
    redaction = ResponseRedaction(
        DEFAULT_REDACTION, DEFAULT_REDACTION.finder(), follows_stream=True
    )
    answer = b"".join(map(chat_event, text.split("|")))
    assert redact_answer(answer, "sse", redaction) == answer


@each_row(
    "body",
    [b'{"password":"\\ud83dhunter2-Zx81"}', b'{"password":"caf\xe9-hunter2"}',
     b'{"token":"\\ud83dAbCd3Fg7Hi9Jk2Lm4"}', b'{"a":"{\\"password\\":\\"hunter2\\", \\"us"}'],
)  # fmt: skip
def test_a_secret_field_may_hold_what_is_no_text(body: bytes) -> None:
    redacted = redact_request(
        StoredRequest("POST", "/v1/x", "", JSON_TYPE, body), DEFAULT_REDACTION
    )
    assert redacted.body.count(b"[redacted:secret-fields]") == 1
    assert b"hunter2" not in redacted.body


# --- the documentation ----------------------------------------------------------------------------


def test_every_shape_is_documented_with_what_it_covers() -> None:
    section = SECURITY_PAGE.partition("### Shapes\n")[2].partition("\n### ")[0]
    rows = re.findall(r"^([a-z0-9-]+)  +(.+)$", section, re.MULTILINE)
    optional = [(each.name, each.covers) for each in SECRET_PATTERNS if each.is_optional]
    always = [(each.name, each.covers) for each in SECRET_PATTERNS if not each.is_optional]
    assert rows == always + optional


@each_row(
    "field",
    re.findall(
        r"`(\w+)`", SECURITY_PAGE.partition("### Secret fields")[2].split(" and similar fields")[0]
    ),
)
def test_every_documented_field_is_replaced(field: str) -> None:
    assert redacted_body({field: "hunter2"}) == {field: "[redacted:secret-fields]"}


# --- the environment ------------------------------------------------------------------------------


@each_row(
    ("name", "value", "is_secret"),
    [
        ("DB_PASSWORD", "kX9vQ2mB7rT4", True),
        ("OPENAI_API_KEY", "anything-q7w8e9r0t1", True),
        ("GITHUB_TOKEN", "q7w8e9r0t1y2", True),
        ("CLIENT_SECRET", "a-b-c-q7w8e9r0t1", True),
        ("DB_PASSWORD", "kX9vQ2mB7rT", False),
        ("DB_PASSWORD", "correct-horse-battery", False),
        ("HOME", "/home/q7w8e9r0t1y2", False),
        ("OPENAI_API_KEY", "not-needed", False),
        ("SSH_AUTH_SOCK", "/run/ssh-XXq7w8e9r0/agent.12", False),
        ("API_KEY", "q7w8e9r0" * 600, False),
    ],
)
def test_a_secret_of_the_environment_has_a_name_that_says_so_and_looks_random(
    name: str, value: str, is_secret: bool
) -> None:
    assert (value.encode() in environment_secret_spellings({name: value})) == is_secret


async def test_a_secret_of_the_environment_is_not_recorded_and_the_log_names_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    secret = "kX9vQ2mB7rT4pL6w"
    monkeypatch.setenv("DB_PASSWORD", secret)
    messages = [{"role": "user", "content": [{"type": "text", "text": f"log in with {secret}"}]}]
    body = json.dumps({"model": "m", "stream": True, "messages": messages}).encode()
    request = build_http_request("/v1/chat/completions", body, "Content-Type: application/json")
    answer = [chat_event("with kX9v"), chat_event("Q2mB7rT4"), chat_event("pL6w?"), DONE_EVENT]
    with caplog.at_level(logging.WARNING):
        async with (
            upstream(chunked(answer)) as live,
            proxy("record", tmp_path, live.url) as recording,
        ):
            await send_request(recording.url, request)
    [cassette] = load_cassettes(tmp_path)
    assert cassette.request.body.count(b"[redacted-operator]") == 1
    assert cassette.response_body == b"".join(
        [chat_event("with [redacted-operator]"), chat_event(""), chat_event("?"), DONE_EVENT]
    )
    [warning] = [each.getMessage() for each in caplog.records if "environment" in each.getMessage()]
    assert "$.messages[0].content[0].text" in warning
    assert secret not in caplog.text
    assert all(secret.encode() not in path.read_bytes() for path in tmp_path.rglob("*.jsonl"))

    async with proxy("replay", tmp_path, pace=InstantPace()) as replaying:
        replayed = await send_request(replaying.url, request)
    assert replayed.body == cassette.response_body


async def test_a_secret_of_the_environment_in_a_deeply_nested_request_is_not_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    secret, depth = "kX9vQ2mB7rT4pL6w", 1000
    monkeypatch.setenv("DB_PASSWORD", secret)
    body = b'{"model":"m","metadata":%b"%b"%b}' % (b"[" * depth, secret.encode(), b"]" * depth)
    request = build_http_request("/v1/chat/completions", body, "Content-Type: application/json")
    with caplog.at_level(logging.WARNING):
        async with (
            upstream(chunked([chat_event("ok"), DONE_EVENT])) as live,
            proxy("record", tmp_path, live.url) as recording,
        ):
            await send_request(recording.url, request)
    [cassette] = load_cassettes(tmp_path)
    assert cassette.request.body == body.replace(secret.encode(), b"[redacted-operator]")
    assert f"$.metadata{'[0]' * depth};" in caplog.text


# --- what cannot be replaced ----------------------------------------------------------------------


def event_with_repeated_member(text: str) -> bytes:
    """An event in which only the second of two members of one name counts."""
    return b'data: {"choices":[{"index":0,"delta":{"content":"x","content":"%b"}}]}\n\n' % (
        text.encode()
    )


async def test_a_recording_whose_secret_cannot_be_replaced_is_not_stored_and_counts_as_failed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    body = b'{"model":"m","stream":true,"messages":[]}'
    request = build_http_request("/v1/chat/completions", body, "Content-Type: application/json")
    answer = [*map(event_with_repeated_member, (KEY[:9], KEY[9:20], KEY[20:])), DONE_EVENT]
    async with (
        upstream(chunked(answer)) as live,
        proxy("record", tmp_path, live.url) as recording,
    ):
        received = await send_request(recording.url, request)
        await wait_until(lambda: bool(recording.journal.recording_failures))
    assert received.body == b"".join(answer)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    assert "not recorded: POST /v1/chat/completions: " in caplog.text
    assert "cannot replace a secret in the response; the recording is not stored" in caplog.text


# --- a hostile provider ---------------------------------------------------------------------------


@each_row(
    "text",
    [b"c2st", b"\\\\/", b"%41", b"AKIA", b"sk-", b"-----BEGIN PRIVATE KEY-----", b"7Q~", b"736b2d"],
)
def test_what_may_become_a_secret_for_ever_takes_linear_time_in_small_reads(text: bytes) -> None:
    def redact_small_reads(size: int) -> None:
        redactor = Redactor(DEFAULT_REDACTION.finder())
        for _ in range(size):
            redactor.feed(Read(0.0, text))
        redactor.flush()

    assert_linear(redact_small_reads, 2400)
