"""JSON leaves of a request by path: each path works as an ignore rule; base64 is shortened."""

from __future__ import annotations

import base64
import json
import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from case_tables import each_row
from llm_proxy.cassette import StoredRequest
from llm_proxy.diff.documents import json_leaves
from llm_proxy.display import json_path_step
from llm_proxy.matching import key_document
from llm_proxy.matching.option_grammar import parse_rule

IMAGE = base64.b64encode(random.Random(7).randbytes(3000)).decode()
SUMMARY_PREFIX = "base64 of 3000 bytes, sha256 "


def body_leaves(body: Any) -> dict[str, str]:
    """Return the leaves of a JSON body only."""
    request = StoredRequest("POST", "/v1/x", "", (), json.dumps(body).encode())
    flat = json_leaves(key_document("openai", request))
    return {path: value for path, value in flat.items() if path.startswith("$")}


def leaf_text(text: str) -> str:
    return str(json.loads(body_leaves({"a": text})["$.a"]))


@each_row(
    ("template", "expected_template"),
    [
        ("{}", "{}"),
        ("data:image/png;base64,{}", "{}"),
        ("data:audio/wav;rate=8000;base64,{}", "{}"),
        ("![a picture](data:image/png;base64,{}) and more", "![a picture]({}) and more"),
        ('{{"image": "{}"}}', '{{"image": "{}"}}'),
    ],
)
def test_large_base64_is_summarised_by_its_hash(template: str, expected_template: str) -> None:
    summary = leaf_text(template.format(IMAGE))
    prefix, _, suffix = expected_template.format(SUMMARY_PREFIX).partition(SUMMARY_PREFIX)

    assert summary.startswith(prefix + SUMMARY_PREFIX)
    assert summary.endswith(suffix)
    assert len(summary) == len(prefix + SUMMARY_PREFIX + suffix) + 16
    assert leaf_text(template.format(IMAGE)) != leaf_text(template.format(IMAGE[::-1]))


@each_row("text", ["a" * 1000, "word " * 200, "0123456789" * 100, "ABC" * 200, IMAGE[:255]])
def test_other_text_is_kept(text: str) -> None:
    assert leaf_text(text) == text


@each_row(
    ("name", "expected"),
    [
        ("a", ".a"),
        ("a_1", ".a_1"),
        ("1a", "['1a']"),
        ("a b", "['a b']"),
        ("", "['']"),
        ("ä", "['ä']"),
        ("it's", '["it\'s"]'),
        ('say "hi"', "['say \"hi\"']"),
        ('it\'s "so"', '["it\'s \\"so\\""]'),
        ("a\nb\\c", r"['a\nb\\c']"),
    ],
)
def test_the_name_of_a_member_is_a_step_of_a_path(name: str, expected: str) -> None:
    assert json_path_step(name) == expected


LETTERS = st.characters(exclude_categories=("Cs", "Cc"))  # jsonpath-rfc9535 rejects these escaped
names = st.sampled_from(["a", "b c", "it's", 'say "hi"', "x\\y", "\n", "ä", ""]) | st.text(
    LETTERS, max_size=4
)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(names, values, min_size=1, max_size=4))
def test_the_path_of_every_value_is_a_rule_that_ignores_it_and_nothing_else(
    body: dict[str, Any],
) -> None:
    request = StoredRequest("POST", "/v1/x", "", (), json.dumps(body).encode())
    document = key_document("openai", request)
    before = {path: value for path, value in json_leaves(document).items() if path.startswith("$")}

    for path, value in before.items():
        after = json_leaves(parse_rule(f"ignore={path}").normalize_document(document).document)
        assert after.get(path) in {None, '"<ignored>"'}
        assert before.items() - after.items() == {(path, value)} - after.items()
