"""Templates in the texts of a scenario are replaced by values of the request."""

from __future__ import annotations

from typing import Final

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from case_tables import each_row
from llm_proxy.scenario.documents.document import Response, ToolCallSpec, ToolCallsResponse
from llm_proxy.scenario.generation import templates
from llm_proxy.turns import Json

BODY: Final[dict[str, Json]] = {
    "model": "m",
    "temperature": 0.5,
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Where is order 42?"},
        {"role": "tool", "content": {"id": 42, "on": None, "at": "Köln"}},
    ],
    "}}": "closing",
    "it's": "quoted",
}


@each_row(
    ("text", "expected"),
    [
        ("nothing to fill in", "nothing to fill in"),
        ("{{ $.model }}", "m"),
        ("{{$.model}} and {{   $.model   }}", "m and m"),
        ("You said: {{ $.messages[1].content }}!", "You said: Where is order 42?!"),
        ("{{ $.messages[-1].content }}", '{"id":42,"on":null,"at":"Köln"}'),
        ("{{ $.temperature }}", "0.5"),
        ("{{ $.messages[-1].content.on }}", "null"),
        ("{{ $.messages[*].role }}", "system\nuser\ntool"),
        ("{{ $.messages[?@.role == 'user'].content }}", "Where is order 42?"),
        ("{{ $['}}'] }}", "closing"),
        ('{{ $["it\'s"] }}', "quoted"),
        ("{{ '{{' }} braces }}", "{{ braces }}"),
        ('{{ "{{" }}', "{{"),
        ("{ {$.model} }}", "{ {$.model} }}"),
    ],
)
def test_a_template_is_replaced_by_the_value_in_the_request(text: str, expected: str) -> None:
    assert templates.template_error(text) is None
    assert templates.fill_templates(text, BODY) == (expected, ())


def test_template_results_are_not_expanded_again() -> None:
    body: Json = {"content": "{{ $.secret }}", "secret": "s"}

    assert templates.fill_templates("{{ $.content }}", body) == ("{{ $.secret }}", ())


def test_a_path_that_finds_nothing_leaves_nothing_and_is_named_once() -> None:
    assert templates.fill_templates("<{{ $.x }}{{ $.x }}>", BODY) == (
        "<>",
        ("the template {{ $.x }} matches nothing in the request",),
    )


@each_row("body", [None, "text", 3, [], {}])
def test_a_body_that_is_no_object_holds_nothing(body: Json) -> None:
    assert templates.fill_templates("<{{ $.a }}>", body)[0] == "<>"


def test_a_path_that_finds_too_much_says_so() -> None:
    filled = templates.fill_templates("{{ $.a[*] }}", {"a": ["x"] * 1001})

    where = "the template {{ $.a[*] }} matches more than 1000 values in the request"
    assert filled == ("\n".join("x" * 1000), (f"{where}; only the first 1000 are used",))


def test_a_body_that_is_too_deep_is_searched_as_far_as_can_be() -> None:
    body: Json = "bottom"
    for _ in range(500):
        body = {"a": body}

    filled = templates.fill_templates("{{ $..b }}", body)

    assert filled == ("", ("the template {{ $..b }} matches nothing in the request",))


def test_within_json_a_template_alone_is_the_value_itself() -> None:
    response = ToolCallsResponse(
        assistant_text="{{ $.temperature }}",
        tool_calls=(
            ToolCallSpec(
                tool_name="{{ $.model }}",
                arguments={
                    "number": "{{ $.messages[-1].content.id }}",
                    "text": "no. {{ $.messages[-1].content.id }}",
                    "object": [" {{ $.messages[-1].content }} "],
                    "several": "{{ $.messages[*].role }}",
                    "none": "{{ $.x }}",
                    "braces": "{{ '{{' }}",
                    "kept": 7,
                    "{{ $.model }}": True,
                },
            ),
        ),
    )

    result = templates.fill_templates(msgspec.to_builtins(response), BODY)
    filled: Response = msgspec.convert(result[0], Response)

    assert filled == ToolCallsResponse(
        assistant_text="0.5",
        tool_calls=(
            ToolCallSpec(
                tool_name="m",
                arguments={
                    "number": 42,
                    "text": "no. 42",
                    "object": [{"id": 42, "on": None, "at": "Köln"}],
                    "several": ["system", "user", "tool"],
                    "none": None,
                    "braces": "{{",
                    "kept": 7,
                    "{{ $.model }}": True,
                },
            ),
        ),
    )
    assert result[1] == ("the template {{ $.x }} matches nothing in the request",)


UNCLOSED: Final = (
    "{} is not closed; add the missing quote or }}}}, or write "
    "{{{{ '{{{{' }}}} for two literal braces"
)
UNEXPECTED: Final = (
    "{} is not a valid JSONPath: expected '.', '..' or a bracketed selection, found '{}'"
)


@each_row(
    ("text", "mistake"),
    [
        ("a {{ $.b", UNCLOSED.format("{{ $.b")),
        ("{{ $['b }}", UNCLOSED.format("{{ $['b }}")),
        ("{{ $.a } {{ $.b }}", UNEXPECTED.format("{{ $.a } {{ $.b }}", "}")),
        (
            "{{ messages[0] }}",
            (
                "{{ messages[0] }} is not a valid JSONPath: "
                "it must start with $, as in $.messages[-1].content"
            ),
        ),
        (
            "{{}}",
            "{{ }} is not a valid JSONPath: it must start with $, as in $.messages[-1].content",
        ),
        ("{{ $.a | upper }}", UNEXPECTED.format("{{ $.a | upper }}", "|")),
        ("{{ $.a b }}", UNEXPECTED.format("{{ $.a b }}", "b")),
        ("{{ $.a[?@.b }}", "{{ $.a[?@.b }} is not a valid JSONPath: unbalanced brackets"),
        ("{{ $ }} {{ $[ }}", None),
    ],
)
def test_a_template_that_is_none_is_explained(text: str, mistake: str | None) -> None:
    actual = templates.template_error(text)

    assert actual
    assert mistake in {actual, None}


@example("{{" * 20_000)
@example("{{ '" * 20_000)
@example("{{ $.a }" * 20_000)
@example("{{ $" + "[0]" * 5000 + " }}")
@example("{{ $[?" + "(" * 3000 + " }}")
@given(st.lists(st.sampled_from(["{{", "}}", "'", '"', "$.a", "[", "\\", " ", "x"])).map("".join))
def test_any_text_is_valid_or_has_a_mistake(text: str) -> None:
    mistake = templates.template_error(text)
    filled = templates.fill_templates(text, {"a": 1})

    assert mistake is None or (len(mistake) < 300 and "\n" not in mistake)
    assert isinstance(filled[0], str)
