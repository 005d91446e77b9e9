"""The frozen settings that option values make."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from llm_proxy.ages import max_age_of
from llm_proxy.cli.options.server import PORT
from llm_proxy.faults.grammar import rules_of as faults_of
from llm_proxy.faults.rule import Rule
from llm_proxy.matching.grammar import match_of, rules_of
from llm_proxy.matching.rules import EXACT
from llm_proxy.pacing import parse_pace
from llm_proxy.providers import ANY
from llm_proxy.shell.running.journal_file import check_place
from llm_proxy.shell.running.settings import (
    Care,
    Matching,
    Settings,
    Simulating,
    checked_url,
    default_spool,
    parse_upstreams,
    state_folder,
)


def settings_of(values: dict[str, Any], command: tuple[str, ...], *, live: bool) -> Settings:
    """The frozen settings for option values; `live` where a provider may be asked.

    Raises `UsageError` for values that make none.
    """
    environ = os.environ
    port = values["port"]
    given = parse_upstreams(values.get("upstream", ()))
    adopted = _adopted(given, environ) if command and live else {}
    return Settings(
        cassettes=values["cassettes"],
        host=values["host"],
        port=(0 if command else PORT) if port is None else port,
        port_file=values["port_file"],
        upstreams=adopted | given,
        clients_own=_clients_own(adopted),
        upstream_proxy=_proxy(values.get("upstream_proxy") or ""),
        idle_timeout=values.get("idle_timeout", 300.0),
        finish_on_disconnect=values.get("finish_on_disconnect", False),
        max_body=values["max_body"],
        pace=parse_pace(values["pace"]),
        after_last=values.get("after_last", "repeat"),
        on_miss=values.get("on_miss") or "record",
        allow_partial=values["allow_partial"],
        strict=values["strict"],
        allow_hosts=frozenset(name.lower() for name in values["allow_host"]),
        allow_origins=frozenset(values["allow_origin"]),
        spool=values.get("spool") or default_spool(environ),
        log_format=values["log_format"],
        sign=values.get("sign"),
        seed=values["seed"],
        faults=_faults(values),
        fault_header=values["fault_header"],
        journal=_journal(values["journal"]),
        state=state_folder(environ),
        matching=_matching(values),
        care=Care(
            fail_on_unused=values["fail_on_unused"],
            max_age=max_age_of(values["max_age"]) if values["max_age"] else None,
        ),
        simulating=Simulating(
            scenarios=values["scenarios"],
            mock=values["mock"] or "",
            respond=values["respond"] or "",
            on_unknown=values["on_unknown"],
            clock=values["clock"],
            silence=values["silence"],
        ),
    )


def _matching(values: dict[str, Any]) -> Matching:
    how = match_of(values["match"])
    return Matching(
        session=values["session"],
        rules=EXACT if how.is_exact else rules_of(values["normalise"]),
        nearest=how.nearest,
        collapse_retries=values["collapse_retries"],
    )


def _faults(values: dict[str, Any]) -> tuple[Rule, ...]:
    """The rules of the command line, and behind them those of the file."""
    given = faults_of(values["fault"])
    if values["faults"] is None:
        return given
    from llm_proxy.shell.running.fault_rules import read_rules  # noqa: PLC0415 # only where one is given

    return given + read_rules(values["faults"])


def _journal(path: Path | None) -> Path | None:
    if path is not None:
        check_place(path)
    return path


def _adopted(given: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """The addresses that the environment of a COMMAND names, where nothing that is given wins."""
    from llm_proxy.shell.running.environment import adopted_upstreams  # noqa: PLC0415 # only to serve

    return {} if ANY in given else adopted_upstreams(environ, given)


def _clients_own(adopted: Mapping[str, str]) -> frozenset[str]:
    from llm_proxy.shell.running.environment import with_our_v1  # noqa: PLC0415 # only to serve

    return with_our_v1(adopted)


def _proxy(url: str) -> str | None:
    return checked_url("--upstream-proxy", url.strip()) if url.strip() else None
