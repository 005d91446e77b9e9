"""Secrets: models read and write their names, and tools have the values."""

from __future__ import annotations

from typing import Any, Final

import pytest

from case_tables import each_row
from llm_pytest.models import TestSpec, TestStep
from llm_pytest.plugin_base import ToolError
from llm_pytest.secrets import Secrets, secret_names

TOKEN: Final = "tok-Xk29dLq8Zpw7Rt5Yb3"
OTHER: Final = "tok-Mn47sVc1Gfh6Ju2Ko9"
JWT: Final = (
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
)
ENVIRON: Final = {
    "SHOP_TOKEN": "env-Qw83nDk5Lz0pTy",
    "SHOP_URL": "http://127.0.0.1:1",
    "DB_KEY": "tea",
}


@each_row(
    ("result", "hidden"),
    [
        ({"access_token": TOKEN}, {"access_token": "{{ secret.1 }}"}),
        (
            {"a": {"token": TOKEN}, "b": [JWT]},
            {"a": {"token": "{{ secret.1 }}"}, "b": ["{{ secret.2 }}"]},
        ),
        (
            {"token": TOKEN, "seen": f"<{TOKEN}>"},
            {"token": "{{ secret.1 }}", "seen": "<{{ secret.1 }}>"},
        ),
        ({"token": TOKEN, TOKEN: 1}, {"token": "{{ secret.1 }}", "{{ secret.1 }}": 1}),
        (f'{{"access_token": "{TOKEN}"}}', '{"access_token": "{{ secret.1 }}"}'),
        (f"/reset?token={TOKEN}&page=2", "/reset?token={{ secret.1 }}&page=2"),
        (f"key is {ENVIRON['SHOP_TOKEN']}.", "key is {{ env.SHOP_TOKEN }}."),
        (
            {"cart": TOKEN, "token": TOKEN, "z": TOKEN},
            {"cart": "{{ secret.1 }}", "token": "{{ secret.1 }}", "z": "{{ secret.1 }}"},
        ),
        ({"key": "cinnamon-tea", "b": "tea"}, {"key": "cinnamon-tea", "b": "tea"}),
        ("/search?key=cinnamon-tea&page=2", "/search?key=cinnamon-tea&page=2"),
        (f"See /reset?token={TOKEN}.", "See /reset?token={{ secret.1 }}."),
        (f'<a href="/?u=3&amp;token={TOKEN}">', '<a href="/?u=3&amp;token={{ secret.1 }}">'),
        (f"a=1; session={TOKEN}", f"a=1; session={TOKEN}"),
        ({"cookie": f"a=1; session={TOKEN}"}, {"cookie": "{{ secret.1 }}"}),
        ({"errors": {"password": "is too short"}}, {"errors": {"password": "is too short"}}),
        ({"name": "tea", "token_count": 3}, {"name": "tea", "token_count": 3}),
        ("{{ secret.1 }}", "{{ secret.1 }}"),
    ],
)
def test_secrets_of_results_become_names(result: Any, hidden: Any) -> None:
    assert Secrets((), ENVIRON).hide(result) == hidden


def test_each_secret_of_a_field_has_a_number_even_if_two_are_equal() -> None:
    first_run, second_run = Secrets(), Secrets()

    names = [first_run.hide({"token": token}) for token in (TOKEN, OTHER)]
    equal = [second_run.hide({"token": token}) for token in (TOKEN, TOKEN)]

    assert names == equal == [{"token": "{{ secret.1 }}"}, {"token": "{{ secret.2 }}"}]
    assert second_run.insert({"a": "{{ secret.1 }} {{secret.2}}"}) == {"a": f"{TOKEN} {TOKEN}"}


def test_a_token_of_a_url_is_decoded_and_encoded_again() -> None:
    secrets = Secrets()
    assert secrets.hide("/reset?token=ab%2Bcd%3D%3DXk29dLq8") == "/reset?token={{ secret.1 }}"

    assert secrets.insert({"url": "/reset?token={{ secret.1 }}", "json": "{{ secret.1 }}"}) == {
        "url": "/reset?token=ab%2Bcd%3D%3DXk29dLq8",
        "json": "ab+cd==Xk29dLq8",
    }


def test_only_arguments_that_have_a_syntax_are_encoded() -> None:
    secrets = Secrets()
    secrets.hide({"token": "a+b=Xk29dLq8Zpw7"})

    assert secrets.insert({"query": {"url": "{{ secret.1 }}"}}) == {
        "query": {"url": "a+b=Xk29dLq8Zpw7"}
    }


def test_thousands_of_tokens_are_hidden() -> None:
    tokens = [{"token": f"tok-Xk29dLq8Zpw7R{number}"} for number in range(5_000)]

    assert Secrets().hide(tokens)[-1] == {"token": "{{ secret.5000 }}"}


def test_names_in_arguments_become_values() -> None:
    secrets = Secrets(["SHOP_TOKEN"], ENVIRON)
    secrets.hide({"token": "a+b/c=&d-Xk29dLq8"})

    assert secrets.insert(
        {
            "headers": {"Authorization": "Bearer {{ env.SHOP_TOKEN }}"},
            "url": "http://127.0.0.1/?key={{ secret.1 }}",
            "pattern": "^{{ secret.1 }}$",
            "json": [{"a": "{{ shop }} {{ secret.1 }}"}, 1, None],
        }
    ) == {
        "headers": {"Authorization": "Bearer env-Qw83nDk5Lz0pTy"},
        "url": "http://127.0.0.1/?key=a%2Bb%2Fc%3D%26d-Xk29dLq8",
        "pattern": r"^a\+b/c=\&d\-Xk29dLq8$",
        "json": [{"a": "{{ shop }} a+b/c=&d-Xk29dLq8"}, 1, None],
    }


@each_row("name", ["secret.9", "env.SHOP_URL", "env.DB_KEY", "env.NONE"])
def test_a_name_without_a_value_is_an_error(name: str) -> None:
    with pytest.raises(ToolError, match=f"there is no {{{{ {name} }}}} in this test"):
        Secrets(["SHOP_TOKEN"], ENVIRON).insert({"a": f"{{{{ {name} }}}}"})


def test_a_secret_that_no_definition_names_is_inserted_once_it_was_shown() -> None:
    secrets = Secrets((), ENVIRON)
    with pytest.raises(ToolError):
        secrets.insert({"a": "{{ env.SHOP_TOKEN }}"})

    assert secrets.hide(ENVIRON["SHOP_TOKEN"]) == "{{ env.SHOP_TOKEN }}"
    assert secrets.insert({"a": "{{ env.SHOP_TOKEN }}"}) == {"a": ENVIRON["SHOP_TOKEN"]}


def test_the_secrets_of_a_definition_are_those_that_its_texts_name() -> None:
    steps = (TestStep("a", "{{ env.A_TOKEN }}", "{{ env.B_KEY }}"),)
    spec = TestSpec("t", steps, setup=("{{ env.HOST }}",), teardown=("{{ env.A_TOKEN }}",))

    assert secret_names(spec) == ("A_TOKEN", "B_KEY")
