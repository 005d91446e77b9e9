"""`reset`: restarts a session of a running proxy."""

from __future__ import annotations

import click

from llm_proxy.cli.journals import find_proxy, reset_session
from llm_proxy.cli.options import CheckedTextType, check_session_name
from llm_proxy.cli.output import print_note


@click.command
@click.argument(
    "session",
    required=False,
    metavar="[SESSION]",
    type=CheckedTextType("session", check_session_name),
)
def reset(session: str | None) -> None:
    r"""Restart a session of a running proxy.

    The next request of the session gets the first take, or the first turn of its scenario. The
    counters of faults restart too. The session's pace and its selected scenario are removed.

    Without SESSION, the command resets the session of requests that do not set one. The proxy is
    the one at the URL in LLM_PROXY_URL, or else at http://127.0.0.1:4777.

    \b
    Examples:
      llm-proxy reset
      llm-proxy reset test-7
      LLM_PROXY_URL=http://127.0.0.1:5000 llm-proxy reset
    """
    proxy = find_proxy()
    session = session or proxy.default_session
    reset_session(proxy, session)
    print_note(f"reset session {session} of {proxy.description}")
