"""The tests of the application: what `llm-proxy chaos` runs."""

from __future__ import annotations

from chaos_app.chat import ask


def test_there_is_an_answer() -> None:
    assert ask()
