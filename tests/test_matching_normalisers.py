"""Normalisers: what each one ignores, what it keeps, and that it is idempotent."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from case_tables import each_row
from linear_time import assert_linear
from llm_proxy.cassette import StoredRequest
from llm_proxy.errors import UsageError
from llm_proxy.matching import KeyDocument, key_document
from llm_proxy.matching.keys import NormaliserDefinition
from llm_proxy.matching.normalisers import NORMALISERS
from llm_proxy.matching.option_grammar import parse_rule

FORM: Final = "multipart/form-data; boundary=X"
UUID: Final = "3f2c8a1e-0d4b-4c6f-9a7e-5b1d2c3e4f5a"
OTHER: Final = "00000000-1111-2222-3333-444444444444"


def key_document_of(body: Any, content_type: str = "application/json") -> KeyDocument:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return key_document(
        "openai", StoredRequest("POST", "/v1/x", "", (("content-type", content_type),), data)
    )


def normalized_body(rule: str, body: Any, content_type: str = "application/json") -> Any:
    """The body after a rule is applied."""
    return parse_rule(rule).normalize_document(key_document_of(body, content_type)).document.body


def normalized_text(rule: str, text: str) -> str:
    """A text in a body after a rule is applied."""
    return str(normalized_body(rule, {"content": text})["content"])


class TestWhitespace:
    @each_row(
        ("text", "left"),
        [
            ("a b", "a b"),
            ("  a \t\r\n  b\u00a0\u2003c\n", "a b c"),
            ("\n", ""),
            ("a\u200bb", "a\u200bb"),
        ],
        ids=["one space", "every kind", "nothing else", "no white space"],
    )
    def test_runs_of_white_space_become_one_space_and_the_ends_are_trimmed(
        self, text: str, left: str
    ) -> None:
        assert normalized_text("whitespace", text) == left

    def test_names_of_members_and_numbers_stay(self) -> None:
        body = {" a ": [" b ", 1, None, {"c  d": "e  f"}]}
        assert normalized_body("whitespace", body) == {" a ": ["b", 1, None, {"c  d": "e f"}]}


TIMES: Final = """
2026-11-22
2026-11-22T13:05:09Z
2026-11-22T13:05:09.123456+00:00
2026-11-22 13:05:09,123
2026-11-22 13:05
2026-11-22_13-05-09
20261122T130509Z
20261122_130509
Sun, 22 Nov 2026 13:05:09 GMT
Sun, 22 Nov 2026 13:05:09 +0000
Sunday, November 22, 2026
sunday 22 november 2026
November 22, 2026
November 22nd, 2026
Nov 22, 2026, 1:05 PM
November 22, 2026 at 1:05 p.m. CET
22 Nov 2026
22nd of November, 2026
22-Nov-2026
22/Nov/2026:13:05:09 +0000
2026/11/22
2026/11/22 13:05:09
11/22/2026
11/22/2026, 1:05:09\u202fPM
Sun Nov 22 13:05:09 2026
Sun Nov 22 13:05:09 UTC 2026
Sun Nov 22 01:05:09 PM UTC 2026
Sun Nov 22 13:05:09 2026 +0000
Sun Nov 22 2026 13:05:09 GMT+0000 (Coordinated Universal Time)
Nov 22 13:05
Nov  2  2026
13:05:09
13:05:09.123
1:05:09 PM
""".strip().split("\n")

NO_TIMES: Final = """
gpt-4o-2024-08-06
claude-3-5-sonnet-20241022
bedrock-2023-05-31
1.2.3
v2026.11.22
2026.11.22
10.0.2026.11
$20.26
2026
20261122
November 2026
May 5
1/2
12:30
3:05 PM
16:9
1:2:3
00:11:22:33:44:55
2001:db8::10:20:30
1492-10-12
July 20, 1969
2026-13-01
2026-11-32
25:00:00
1-2026-11-22
2026-11-22-3
123.13:05:09
step_2026-11-22
1795353909
""".strip().split("\n")


class TestTimestamps:
    @each_row("text", TIMES)
    def test_a_time_is_normalised_wherever_it_occurs(self, text: str) -> None:
        for template in ("{}", "It is {}.", "({})", "from {}, or", "<d>{}</d>", "a\n{}\nb"):
            assert normalized_text("timestamps", template.format(text)) == template.format("<time>")

    @each_row("text", NO_TIMES)
    def test_what_only_looks_like_a_time_counts(self, text: str) -> None:
        for template in ("{}", "It is {}.", "({})", "from {}, or", "<d>{}</d>"):
            assert normalized_text("timestamps", template.format(text)) == template.format(text)

    def test_a_stamp_may_end_a_name(self) -> None:
        assert (
            normalized_text("timestamps", "logs/run-20261122T130509Z.txt") == "logs/run-<time>.txt"
        )

    @each_row(
        "name",
        ["created", "created_at", "createdAt", "timestamp", "start_time", "date", "expiresAt",
         "x-ts", "TIMESTAMP", "lastUpdated"],
    )  # fmt: skip
    @each_row(
        "number",
        [1795353909, 1795353909.25, 1795353909123, 1795353909123456, 1795353909123456789,
         "1795353909", "1795353909123"],
    )  # fmt: skip
    def test_a_number_is_a_time_where_its_name_says_so(self, name: str, number: Any) -> None:
        assert normalized_body("timestamps", {name: number, "at": [number]}) == {
            name: "<time>",
            "at": ["<time>"],
        }
        for text in ('{{"{}": {}}}', '{{\\"{}\\":{}}}', "{}={}", "{}: '{}'", "<{}>{}</x>"):
            assert normalized_text("timestamps", text.format(name, number)) == text.format(
                name, "<time>"
            )

    @each_row(
        ("name", "number"),
        [
            ("price", 1795353909),
            ("id", "1795353909"),
            ("seed", 1795353909),
            ("candidate", 1795353909),
            ("format", 1795353909),
            ("created", 179535390),
            ("created", 1420070399),
            ("created", 2398377600),
            ("created", True),
            ("timeout", 30000),
        ],
    )
    def test_any_other_number_counts(self, name: str, number: Any) -> None:
        assert normalized_body("timestamps", {name: number}) == {name: number}
        assert normalized_text("timestamps", f"{name}={number}") == f"{name}={number}"

    def test_a_number_in_a_text_without_a_time_name_counts(self) -> None:
        assert normalized_text("timestamps", "1795353909") == "1795353909"

    def test_the_name_of_a_model_always_counts(self) -> None:
        body = {"model": "2026-11-22", "tools": [{"model": "2026-11-22"}]}
        assert normalized_body("timestamps", body) == {
            "model": "2026-11-22",
            "tools": [{"model": "<time>"}],
        }


class TestUuids:
    def test_the_same_uuid_has_the_same_name_wherever_it_stands(self) -> None:
        body = {"b": f"{UUID}, {OTHER}", "a": [OTHER, {"c": f"x_{UUID}.png"}]}
        applied = parse_rule("uuids").normalize_document(key_document_of(body))

        assert applied.document.body == {
            "a": ["<uuid-1>", {"c": "x_<uuid-2>.png"}],
            "b": "<uuid-2>, <uuid-1>",
        }
        assert applied.value_by_alias == {"<uuid-1>": OTHER, "<uuid-2>": UUID}

    @each_row(
        "text",
        [UUID[:-1], UUID + "0", "0" + UUID, "z" + UUID, UUID.replace("-", ""),
         UUID.replace("3", "g")],
    )  # fmt: skip
    def test_what_only_looks_like_a_uuid_counts(self, text: str) -> None:
        assert normalized_text("uuids", text) == text

    def test_two_different_uuids_are_not_confused(self) -> None:
        same, two = {"a": UUID, "b": UUID}, {"a": UUID, "b": OTHER}
        assert normalized_body("uuids", same) != normalized_body("uuids", two)

    def test_a_uuid_as_a_model_name_counts(self) -> None:
        assert normalized_body("uuids", {"model": UUID, "user": UUID}) == {
            "model": UUID,
            "user": "<uuid-1>",
        }


class TestIgnore:
    BODY: Final[dict[str, Any]] = {
        "temperature": 1,
        "metadata": {"trace": "t", "team": "red"},
        "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}],
        "tools": [{"properties": {"user": 1}}],
        'it\'s "so"': 1,
    }

    @each_row(
        ("path", "changed"),
        [
            ("$.temperature", {"temperature": None}),
            ("$.metadata.trace", {"metadata": {"team": "red"}}),
            ("$['metadata'][\"trace\"]", {"metadata": {"team": "red"}}),
            ("$.metadata.*", {"metadata": {}}),
            ("$.messages[0]", {"messages": ["<ignored>", BODY["messages"][1]]}),
            ("$.messages[-1]", {"messages": [BODY["messages"][0], "<ignored>"]}),
            ("$.messages[:1]", {"messages": ["<ignored>", BODY["messages"][1]]}),
            ("$.messages[*]", {"messages": ["<ignored>", "<ignored>"]}),
            ("$.messages[*].content", {"messages": [{"role": "system"}, {"role": "user"}]}),
            (
                "$.messages[?@.role == 'system'].content",
                {"messages": [{"role": "system"}, BODY["messages"][1]]},
            ),
            ("$.tools[*].properties.user", {"tools": [{"properties": {}}]}),
            ('$["it\'s \\"so\\""]', {'it\'s "so"': None}),
            ("$.user", {}),
            ("$.temperature.deeper", {}),
        ],
    )
    def test_exactly_what_stands_at_the_path_does_not_count(
        self, path: str, changed: dict[str, Any]
    ) -> None:
        left = {name: value for name, value in (self.BODY | changed).items() if value is not None}
        assert normalized_body(f"ignore={path}", self.BODY) == left

    def test_the_paths_of_two_rules_mean_what_they_say(self) -> None:
        once = normalized_body("ignore=$.messages[0]", self.BODY)
        assert normalized_body("ignore=$.messages[1]", once)["messages"] == ["<ignored>"] * 2

    @each_row("body", ["$", '{"temperature":1}', 1, None, [], True])
    def test_a_body_of_another_kind_stays(self, body: Any) -> None:
        assert normalized_body("ignore=$.temperature", body) == body

    def test_a_body_that_is_no_json_stays(self) -> None:
        assert normalized_body("ignore=$.a", b"a=1", "application/x-www-form-urlencoded") == [
            {"name": "a", "value": "1"}
        ]

    @each_row(
        ("path", "why"),
        [
            ("temperature", "the JSONPath must start with $"),
            ("$", "selects the whole body; use a longer path"),
            ("$.*", "selects the whole body; use a longer path"),
            ("$[*]", "selects the whole body; use a longer path"),
            ("$..user", "'..' is not supported; write the full path"),
            ("$.a[", "is not a valid JSONPath (RFC 9535): unbalanced brackets"),
            ("$.a | $.b", "is not a valid JSONPath (RFC 9535)"),
            ("$.a[?search(@, '(a+)+$')]", "regular expressions are not supported in filters"),
            ("$.a[?@ =~ /(a+)+$/]", "is not a valid JSONPath (RFC 9535)"),
            ("$.trace-id", "is not a valid JSONPath (RFC 9535): expected '.', '..' or a bracketed"),
        ],
    )
    def test_what_is_no_exact_path_is_refused(self, path: str, why: str) -> None:
        with pytest.raises(UsageError) as refused:
            parse_rule(f"ignore={path}")
        assert why in str(refused.value)


class TestNonText:
    """Content that identifies a request by its exact bytes is changed only by `ignore`."""

    RULES: Final = ("whitespace", "timestamps", "uuids", "regex=[0-9]+")

    @each_row("rule", RULES)
    def test_large_base64_counts_as_it_is(self, rule: str) -> None:
        image = "iVBORw0KGgo2026" * 40
        for text in (image, f"data:image/png;base64,{image}=="):
            assert normalized_text(rule, text) == text

    @each_row("rule", RULES)
    def test_bytes_that_are_no_text_count_as_they_are(self, rule: str) -> None:
        body = b"\xff  2026-11-22 " + UUID.encode()
        assert normalized_body(rule, body, "audio/wav") == normalized_body(
            "ignore=$.a", body, "audio/wav"
        )

    def test_of_a_form_values_and_file_names_are_texts(self) -> None:
        body = (
            b'--X\r\nContent-Disposition: form-data; name="model"\r\n\r\n2026-11-22\r\n'
            b'--X\r\nContent-Disposition: form-data; name="created"\r\n\r\n1795353909\r\n'
            b'--X\r\nContent-Disposition: form-data; name="a 2026-11-22";'
            b' filename="a 2026-11-22"\r\n\r\n\xff\r\n--X--\r\n'
        )
        hashed = "a8100ae6aa1940d0b663bb31cd466142ebbdbd5187131b92d93818987832eb89"
        assert normalized_body("timestamps", body, FORM) == [
            {"name": "model", "value": "2026-11-22"},
            {"name": "created", "value": "<time>"},
            {"name": "a 2026-11-22", "filename": "a <time>", "sha256": hashed, "bytes": 1},
        ]
        assert normalized_body("regex=[0-9a-f]+", body, FORM)[2]["sha256"] == hashed

    def test_a_body_of_plain_text_is_one(self) -> None:
        assert normalized_body("timestamps", b"at 13:05:09", "text/plain") == "at <time>"


RULES: Final = (
    *(kind.name for kind in NORMALISERS.values() if not kind.argument_description),
    "regex=[a-z]", "regex=^a", "regex=.a", "regex=(?s).+", "regex=x+|[0-9]",
    "ignore=$.a", "ignore=$.b[0]", "ignore=$.b[-1]", "ignore=$.b[0:2]", "ignore=$.b[?@ != $.b[0]]",
    "ignore=$.b[*].a",
)  # fmt: skip
pieces = st.sampled_from(
    [*TIMES, *NO_TIMES, UUID, OTHER, "<time>", "<uuid-1>", "created=", "1795353909", "a", "xa",
     " ", "\n", "-", "_", ":", "/", ".", "+", ",", "::", "0", "Z", "PM", "Sun ", "T"]
)  # fmt: skip
texts = st.lists(pieces, max_size=7).map("".join) | st.text(max_size=8)
bodies = st.recursive(
    texts | st.integers(-(2**63), 2**64 - 1) | st.sampled_from([1795353909, None]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b", "created", "model"]), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(body=bodies)
@each_row("rule", RULES)
def test_normalisers_are_idempotent(rule: str, body: Any) -> None:
    parsed_rule = parse_rule(rule)
    once = parsed_rule.normalize_document(key_document_of(body)).document
    assert parsed_rule.normalize_document(once).document == once


@given(body=texts)
def test_the_placeholder_of_a_time_is_never_part_of_another_time(body: str) -> None:
    parsed_rule = parse_rule("timestamps")
    once = parsed_rule.normalize_document(key_document_of(body.encode(), "text/plain")).document
    assert parsed_rule.normalize_document(once).document == once


@given(body=bodies)
@each_row("rule", RULES)
def test_the_order_of_members_changes_nothing(rule: str, body: Any) -> None:
    def reverse_members(value: Any) -> Any:
        if isinstance(value, list):
            return [reverse_members(item) for item in value]
        if isinstance(value, dict):
            return {name: reverse_members(value[name]) for name in reversed(value)}
        return value

    parsed_rule = parse_rule(rule)
    assert parsed_rule.normalize_document(key_document_of(body)) == parsed_rule.normalize_document(
        key_document_of(reverse_members(body))
    )


HOSTILE: Final = {
    "words": "the quick brown fox ",
    "digits": "20",
    "months": "january 2 ",
    "weekdays": "sunday, ",
    "half clocks": "13:05:",
    "clocks that are none": "13:05:09x ",
    "dashes": "-",
    "spaces": " ",
    "brackets": "2026-11-22 13:05:09 (aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa ",
    "back slashes": "a\\\\\\\\\\\\\\\\",
    "names": "a" * 61 + "=",
    "half uuids": "12345678-1234-",
    "data": "data:a/b;a;a;a;a;base64,",
}


@each_row(
    "kind",
    [kind for kind in NORMALISERS.values() if not kind.argument_description],
)
@each_row("piece", HOSTILE.values(), ids=HOSTILE)
def test_the_time_is_linear_in_the_length_of_the_text(
    kind: NormaliserDefinition, piece: str
) -> None:
    def normalize(length: int) -> None:
        document = key_document_of({"content": piece * (length // len(piece)) + "2026 1795353909"})
        kind.make_rule().normalize_document(document)

    assert_linear(normalize, 16_000)
