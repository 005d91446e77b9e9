"""The validation errors of msgspec, rewritten as readable sentences."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from case_tables import each_row
from llm_proxy.cassette import model

FIELD_CHOICES = {"colour": "red, green"}
PATTERN_DESCRIPTIONS = {repr("^[0-9]+$"): "digits"}


@pytest.fixture(autouse=True, scope="module")
def _own_descriptions() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(model, "_ALLOWED_VALUES", FIELD_CHOICES)
        monkeypatch.setattr(model, "_PATTERN_DESCRIPTIONS", PATTERN_DESCRIPTIONS)
        yield


def sentence_for(message: str, root: str = "") -> str:
    return model.validation_error_sentence(msgspec.ValidationError(message), root)


@each_row(
    ("message", "sentence"),
    [
        ("Expected `int`, got `str` - at `$.a.b`", "a.b: expected an integer, got a string"),
        ("Expected `int`, got `float`", "expected an integer, got a fraction"),
        (
            "Expected `float | array`, got `null` - at `$.a`",
            "a: expected a number or a list, got null",
        ),
        ("Object missing required field `x` - at `$.a[0]`", "a[0].x is missing"),
        ("Object contains unknown field `x`", "x is an unknown field"),
        (
            "Invalid enum value 'blue' - at `$.a.colour`",
            "a.colour: expected one of red, green; got 'blue'",
        ),
        ("Expected `str` matching regex '^[0-9]+$' - at `$.a`", "a: expected digits"),
        ("Expected `str` matching regex 'x' - at `$.a`", "a: expected a different format"),
        (
            "Expected `str` of length <= 9 - at `$.a`",
            "a: expected a string of at most 9 characters",
        ),
        ("Expected `float` >= 0.0 - at `$.a`", "a: expected a number of at least 0"),
        (
            "Expected `array` of length 2, got 3 - at `$.a[1]`",
            "a[1]: expected a list of 2 values, got 3",
        ),
        ("Expected `date`, got `set`", "expected date, got set"),
        ("of a later msgspec - at `$.a`", "a: expected of a later msgspec"),
    ],
    ids=[
        "type",
        "integer",
        "either",
        "missing",
        "unknown",
        "one of",
        "pattern",
        "new pattern",
        "length",
        "limit",
        "pair",
        "new type",
        "new message",
    ],
)
def test_each_kind_of_refusal_is_a_sentence(message: str, sentence: str) -> None:
    assert sentence_for(message) == sentence


def test_a_long_value_is_cut() -> None:
    sentence = sentence_for(f"Invalid enum value '{'x' * 5000}' - at `$.colour`")
    assert len(sentence) < 100
    assert sentence.endswith("x…")


def test_a_value_alone_is_called_by_its_name() -> None:
    assert sentence_for("Expected `int`, got `str` - at `$[0]`", "at").startswith("at[0]: expected")
    assert sentence_for("Expected `int`, got `str`", "at").startswith("at: expected")


@given(st.text())
def test_any_field_name_is_quoted_verbatim(name: str) -> None:
    assert sentence_for(f"Object contains unknown field `{name}`") in {
        f"{name} is an unknown field",
        f"{name.removeprefix('.')} is an unknown field",
    }
