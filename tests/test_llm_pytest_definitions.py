"""Test definitions: what they may say, every mistake with its position, and variables."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from jsonschema import Draft202012Validator

from case_tables import each_row
from llm_pytest.definitions import (
    DefinitionError,
    definition_files,
    is_definition,
    load_definition,
    parse_definition,
    resolve,
)
from llm_pytest.linting import lint_definition
from llm_pytest.models import TestSpec, TestStep, definition_schema
from llm_pytest.providers import PROVIDER_NAMES

PAGE: Final = Path(__file__).parents[1] / "docs" / "reference" / "llm-tests.md"

WHOLE: Final = """\
$schema: llm-test.schema.json
name: Checkout
description: An order is paid once.
tags: [smoke]
timeout: 120
max_turns: 20
provider: claude-code
model: claude-haiku-4-5
variables: {base: "{{ env.SHOP_URL }}/api", item: 7, gift: true, cart: "{{ base }}/carts"}
allowed_hosts: ["{{ env.HOST }}"]
setup:
  - Create a cart with POST {{ cart }}.
steps:
  - name: Add an item
    do: Add item {{ item }} (gift {{ gift }}) to the cart.
    expect: The status is 201.
  - name: Pay
    do: |
      Pay with POST {{ cart }}/ID/pay.
    expect:
      - The status is 200.
      - The body has "item" = {{ item }}.
teardown:
  - Delete the cart.
"""
STEPS: Final = "\nsteps:\n  - {name: s, do: x, expect: y}\n"


def parse(text: str, file: str = "t.yaml") -> TestSpec:
    return parse_definition(file, text.encode())


def mistakes_in(content: str | bytes, file: str = "t.yaml") -> list[str]:
    data = content.encode() if isinstance(content, str) else content
    with pytest.raises(DefinitionError) as caught:
        parse_definition(file, data)
    assert str(caught.value).split("\n") == [str(mistake) for mistake in caught.value.mistakes]
    return str(caught.value).split("\n")


def test_a_definition_has_every_field() -> None:
    spec = parse(WHOLE)

    assert spec.name == "Checkout"
    assert (spec.tags, spec.timeout, spec.max_turns) == (("smoke",), 120, 20)
    assert (spec.provider, spec.model) == ("claude-code", "claude-haiku-4-5")
    assert spec.steps[0].expectations == ("The status is 201.",)
    assert len(spec.steps[1].expectations) == 2
    assert spec.teardown == ("Delete the cart.",)


def test_json_is_a_definition_too() -> None:
    document = {"$schema": "s", "name": "a", "steps": [{"name": "s", "do": "x"}], "maxTurns": 3}

    assert parse(json.dumps(document), "t.json").max_turns == 3


def test_names_and_steps_are_enough() -> None:
    assert parse(f"name: a{STEPS}") == TestSpec("a", (TestStep("s", "x", "y"),))


def test_a_byte_order_mark_and_windows_line_ends_are_ignored() -> None:
    content = b"\xef\xbb\xbfname: a\r\nsteps:\r\n  - {name: s, do: x}\r\n"

    assert parse_definition("t.yaml", content) == TestSpec("a", (TestStep("s", "x"),))


def test_anchors_are_replaced_by_their_values() -> None:
    assert parse("name: a\nsteps: [{name: s, do: &t hi, expect: *t}]").steps[0].expect == "hi"


ONE_MISTAKE: Final[dict[str, tuple[str | bytes, str]]] = {
    "blank": (
        "# nothing\n",
        ": the file is empty; expected a test definition: an object with name and steps",
    ),
    "list": ("- name: a", ":1:1: $: expected a test definition: an object with name and steps"),
    "text": ("hello", ":1:1: $: expected a test definition: an object with name and steps"),
    "two documents": (
        f"name: a{STEPS}---\nname: b{STEPS}",
        ":5:1: $: the file has more than one document; put each document in a file of its own",
    ),
    "duplicate key": (
        f"name: a\nname: b{STEPS}",
        ":2:1: $: duplicate field 'name'; the first one is at line 1",
    ),
    "tab": ("name: a\nsteps:\n\t- x", ":3:1: $: a tab is used for indentation; use spaces"),
    "unknown alias": (
        "name: a\nsteps: *x",
        (
            ":2:8: $: unknown alias *x; define &x earlier in this document, or put text that "
            "starts with * in quotes"
        ),
    ),
    "null character": (
        "name: a\0b",
        (
            ":1:8: $: the character \\x00 is not allowed in YAML; write it as an escape in double "
            "quotes"
        ),
    ),
    "escaped null character": (
        'name: "a\\0b"' + STEPS,
        ":1:7: $.name: the text contains a null character; remove the character",
    ),
    "Latin 1": (
        b"name: \xe9",
        ":1:7: $: the byte 0xe9 is not valid UTF-8; save the file as UTF-8",
    ),
    "20 MB": (
        b"#" * 20_000_000,
        ": the file is larger than 100 KiB; shorten the test definition",
    ),
    "deep": (
        "name: a\nsteps: " + "[" * 200,
        ":2:107: $: values are nested more than 100 levels deep",
    ),
    "unknown field": (
        f"taggs: [a]\nname: a{STEPS}",
        ":1:1: $.taggs: unknown field 'taggs'; did you mean 'tags'?",
    ),
    "no time": (
        f"timeout: 0\nname: a{STEPS}",
        ":1:10: $.timeout: 0 is too small; write a number above 0",
    ),
    "too much time": (
        f"timeout: 90000\nname: a{STEPS}",
        ":1:10: $.timeout: 90000 is too large; the maximum is 86400",
    ),
    "long name": (
        "name: " + "a" * 300 + STEPS,
        ":1:7: $.name: the text has 300 characters; the maximum is 200",
    ),
    "name of two lines": (f'name: "a\\nb"{STEPS}', ":1:7: $.name: expected one line of text"),
    "text for a list": (
        f"name: a\nsetup: do it{STEPS}",
        ':2:8: $.setup: expected a list, got the text "do it"; write ["do it"]',
    ),
    "colon in an item": (
        "name: a\nsteps:\n- name: s\n  do: x\n  expect:\n  - The status: 200",
        (
            ":6:5: $.steps[0].expect[0]: expected text, got an object; put text that contains a "
            "colon in quotes"
        ),
    ),
    "same step twice": (
        "name: a\nsteps:\n- {name: Pay, do: x}\n- {name: ' Pay', do: y}",
        ':4:10: $.steps[1].name: duplicate step name " Pay"; the first one is at line 3',
    ),
    **{
        f"the tag {tag}": (
            f"name: a\ntags: [{tag}]{STEPS}",
            (
                f':2:8: $.tags[0]: the tag "{tag}" is not a valid pytest marker; use letters, '
                "digits and _"
            ),
        )
        for tag in ("not", "_x", "a-b")
    },
    "unquoted braces": (
        "name: a\nvariables: {x: 1}\nsteps:\n- name: s\n  do: {{ x }}",
        ':5:7: $: text that begins with {{ must be in quotes; write "{{ x }}"',
    ),
    "unquoted braces and text": (
        f'name: a\nsetup:\n  - {{{{ x | default("y") }}}}/z{STEPS}',
        ":3:5: $: text that begins with {{ must be in quotes; write '{{ x | default(\"y\") }}/z'",
    ),
    "a variable in a name": (
        f"name: a {{{{ x }}}}\nvariables: {{x: 1}}{STEPS}",
        ":1:7: $.name: variables are not supported in this field",
    ),
    "unknown variable in a block": (
        "name: a\nvariables: {base: x}\nsteps:\n- name: s\n  do: |\n    bsae is\n    {{ bsae }}",
        ":7:8: $.steps[0].do: unknown variable 'bsae'; did you mean 'base'?",
    ),
    "unknown variable": (
        f"name: a\ndescription: '{{{{ SHOP }}}}'{STEPS}",
        (
            ":2:18: $.description: unknown variable 'SHOP'; known: none; add it to variables, or "
            "write {{ env.SHOP }} for an environment variable"
        ),
    ),
    "an expression": (
        f"name: a\nvariables: {{x: 1}}\ndescription: 'a {{{{ x + 1 }}}}'{STEPS}",
        (
            ":3:14: $.description: {{ is the start of a variable; write {{ name }}, "
            "{{ env.NAME }}, or {{ '{{' }} for two braces"
        ),
    ),
    "a variable that is defined below": (
        f"name: a\nvariables: {{a: '{{{{ b }}}}', b: x}}{STEPS}",
        ":2:20: $.variables.a: the variable 'b' is defined below; define it above",
    ),
    "variable of itself": (
        f"name: a\nvariables: {{a: '{{{{ a }}}}'}}{STEPS}",
        ":2:20: $.variables.a: the variable 'a' is defined below; define it above",
    ),
    "name of a variable": (
        f"name: a\nvariables: {{a-b: 1}}{STEPS}",
        (
            ":2:13: $.variables.a-b: not a valid name of a variable; use letters, digits and _, "
            "but not env"
        ),
    ),
    "variable named env": (
        f"name: a\nvariables: {{env: 1}}{STEPS}",
        (
            ":2:13: $.variables.env: not a valid name of a variable; use letters, digits and _, "
            "but not env"
        ),
    ),
}


@each_row(("content", "message"), ONE_MISTAKE.values(), ids=ONE_MISTAKE)
def test_a_mistake_is_one_message_with_its_position(content: str | bytes, message: str) -> None:
    assert mistakes_in(content) == [f"t.yaml{message}"]


def test_all_mistakes_are_reported_in_order() -> None:
    found = mistakes_in(
        "nam: a\ntimeout: '5'\nsteps: [{name: s}, {do: 1, name: t, expects: '{{ u }}'}]\n"
        "setup: ['{{ v }}']"
    )

    assert [line.partition(": ")[2] for line in found] == [
        "$.nam: unknown field 'nam'; did you mean 'name'?",
        '$.timeout: expected a number, got the text "5"; remove the quotes',
        "$.steps[0]: missing field 'do': what the model does",
        '$.steps[1].do: expected text, got the number 1; write "1"',
        "$.steps[1].expects: unknown field 'expects'; did you mean 'expect'?",
        (
            "$.setup[0]: unknown variable 'v'; known: none; add it to variables, or write {{ env.v "
            "}} for an environment variable"
        ),
    ]


def test_a_file_that_cannot_be_read_is_one_message(tmp_path: Path) -> None:
    secret = tmp_path / "secret.yaml"
    secret.write_text(WHOLE)
    secret.chmod(0)
    os.mkfifo(tmp_path / "pipe.yaml")
    reasons = {
        tmp_path: "this is a folder; name a file",
        tmp_path / "none.yaml": "no such file",
        tmp_path / "pipe.yaml": "not a regular file",
    }
    if os.geteuid():
        reasons[secret] = "cannot read the file: Permission denied"
    for path, reason in reasons.items():
        with pytest.raises(DefinitionError, match=f"^{re.escape(f'{path}: {reason}')}$"):
            load_definition(path)


def test_the_files_of_a_folder_are_those_of_yaml(tmp_path: Path) -> None:
    names = ("b.yaml", "a/c.yml", "_x.yaml", ".y.yaml", "d.json", "plugins/e.yaml", "_f/g.yaml")
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()

    found = definition_files([tmp_path, tmp_path / "d.json", tmp_path / "b.yaml"])

    assert [str(path.relative_to(tmp_path)) for path in found] == ["a/c.yml", "b.yaml", "d.json"]
    assert [name for name in names if is_definition(Path(name))] == ["b.yaml", "a/c.yml"]


def test_values_are_filled_in_everywhere() -> None:
    spec = resolve(parse(WHOLE), {"SHOP_URL": "http://127.0.0.1:1", "HOST": "example.org"})

    assert spec.setup == ("Create a cart with POST http://127.0.0.1:1/api/carts.",)
    assert spec.steps[0].do == "Add item 7 (gift true) to the cart."
    assert spec.steps[1].do == "Pay with POST http://127.0.0.1:1/api/carts/ID/pay.\n"
    assert spec.steps[1].expectations[1] == 'The body has "item" = 7.'
    assert spec.allowed_hosts == ("example.org",)
    assert spec.variables["cart"] == "http://127.0.0.1:1/api/carts"


def test_values_are_not_rendered_again() -> None:
    spec = parse(f"name: a\nvariables: {{x: '{{{{ env.X }}}}'}}\ndescription: '{{{{ x }}}}'{STEPS}")

    assert resolve(spec, {"X": "{{ y }} {% if %}"}).description == "{{ y }} {% if %}"


def test_other_braces_are_text() -> None:
    text = "{% if x %} {\"a\": {\"b\": 1}} {# no comment {{ ''{{'' }}"
    spec = parse(f"name: a\ndescription: '{text}'{STEPS}")

    assert resolve(spec, {}).description == '{% if x %} {"a": {"b": 1}} {# no comment {{'


def test_a_missing_environment_variable_names_file_place_and_variable() -> None:
    with pytest.raises(DefinitionError) as caught:
        resolve(parse(WHOLE), {"keys": ""}, "checkout.yaml")

    assert str(caught.value).split("\n") == [
        (
            "checkout.yaml: $.variables.base: the environment variable SHOP_URL is not set; set it "
            "before the test, such as in a fixture"
        ),
        (
            "checkout.yaml: $.allowed_hosts[0]: the environment variable HOST is not set; set it "
            "before the test, such as in a fixture"
        ),
    ]


def test_variables_that_grow_exponentially_are_refused() -> None:
    twelve = [f"  v{n}: '{f'{{{{ v{n - 1} }}}}' * 12}'" for n in range(1, 12)]
    content = "\n".join(["name: a", "variables:", "  v0: xxxxxxxxxx", *twelve]) + STEPS

    with pytest.raises(DefinitionError) as caught:
        resolve(parse(content), {}, "a.yaml")

    assert str(caught.value).split("\n")[0] == (
        "a.yaml: $.variables.v4: the variables add too many characters; shorten them"
    )


@each_row(
    ("text", "rendered"),
    [("{{ env.items }}", "k"), ("{{env.EMPTY}}", ""), ("{{  env.A_1  }}", "{{x}}")],
)
def test_values_of_the_environment_are_inserted_as_they_are(text: str, rendered: str) -> None:
    spec = parse(f"name: a\ndescription: '{text}'{STEPS}")

    assert resolve(spec, {"A_1": "{{x}}", "items": "k", "EMPTY": ""}).description == rendered


LINT: Final[dict[str, tuple[str, str]]] = {
    "no expectation": (
        "name: a\nsteps: [{name: s, do: x}]",
        (
            "t.yaml:2:9: $.steps[0]: the step has no expectation; add expect, or the step proves "
            "nothing"
        ),
    ),
    "unused variable": (
        f"name: a\nvariables: {{b: 1}}{STEPS}",
        "t.yaml:2:13: $.variables.b: the variable 'b' is not used; remove it",
    ),
    "setup without teardown": (
        f"name: a\nsetup: [x]{STEPS}",
        (
            "t.yaml:2:1: $.setup: setup without teardown; add a teardown if the setup leaves "
            "anything behind"
        ),
    ),
    "model without provider": (
        f"name: a\nmodel: m{STEPS}",
        "t.yaml:2:1: $.model: a model without a provider; add the provider of this model",
    ),
}


@each_row(("text", "warning"), LINT.values(), ids=LINT)
def test_lint_warns_of_doubtful_definitions(text: str, warning: str) -> None:
    spec, problems = lint_definition("t.yaml", text.encode())

    assert spec is not None
    assert [(str(problem), problem.fails_lint) for problem in problems] == [(warning, False)]


def test_lint_refuses_an_unknown_provider() -> None:
    text = f"name: a\nprovider: opnai{STEPS}"
    spec, [problem] = lint_definition("t.yaml", text.encode())

    assert spec == parse(text)
    assert (str(problem), problem.fails_lint) == (
        "t.yaml:2:11: $.provider: unknown provider 'opnai'; did you mean 'openai'?",
        True,
    )


def test_lint_accepts_a_whole_definition() -> None:
    assert lint_definition("t.yaml", WHOLE.encode())[1] == ()


def test_the_schema_accepts_what_loads() -> None:
    schema = json.loads(json.dumps(definition_schema()))
    Draft202012Validator.check_schema(schema)
    validator = Draft202012Validator(schema)
    document: dict[str, Any] = {"name": "a", "steps": [{"name": "s", "do": "x"}]}

    validator.validate(document | {"$schema": "x", "variables": {"a": 1, "b": "c"}})
    changes: list[dict[str, Any]] = [
        {"timeout": 0}, {"steps": []}, {"tagss": []}, {"setup": "x"}, {"name": ""},
    ]  # fmt: skip
    for change in changes:
        assert not validator.is_valid(document | change)
        assert mistakes_in(json.dumps(document | change), "t.json")


def test_every_field_is_documented_in_the_schema_and_on_the_page() -> None:
    page = PAGE.read_text("utf-8")
    definitions = definition_schema()["$defs"]
    for struct in (TestSpec, TestStep):
        for field in msgspec.structs.fields(struct):
            assert definitions[struct.__name__]["properties"][field.name]["description"]
            assert re.search(rf"(?m)^\| `{field.name}` \|", page), field.name
    assert all(f"`{name}`" in page for name in PROVIDER_NAMES)


def test_every_definition_on_the_page_loads() -> None:
    blocks = re.findall(r"(?ms)^```yaml\n(.*?)^```", PAGE.read_text("utf-8"))

    assert blocks
    for block in blocks:
        if "steps:" in block:
            assert lint_definition("t.yaml", block.encode())[1] == ()


def test_a_missing_extra_is_one_sentence() -> None:
    code = (
        "import sys; sys.modules['jinja2'] = None\n"
        "from llm_proxy.errors import UsageError\n"
        "from llm_pytest.models import TestSpec\n"
        "from llm_pytest.prompt import render_prompt\n"
        "try: render_prompt(TestSpec('a', ()), '')\n"
        "except UsageError as error: print(error)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )

    assert result.stdout == (
        "LLM tests require jinja2; run pip install 'llm-proxy-replay[llm-tests]'\n"
    )
