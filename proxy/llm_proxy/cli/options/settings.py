"""Builds the frozen settings from option values."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from llm_proxy.ages import parse_max_age
from llm_proxy.cli.options.server import PORT
from llm_proxy.faults.grammar import parse_rules as faults_of
from llm_proxy.faults.rule import FaultRule
from llm_proxy.matching.grammar import parse_match, parse_rules
from llm_proxy.matching.rules import EXACT
from llm_proxy.pacing import parse_pace
from llm_proxy.providers import ANY
from llm_proxy.shell.running.journal_file import check_writable
from llm_proxy.shell.running.settings import (
    LibraryChecks,
    MatchingOptions,
    Settings,
    SimulationOptions,
    checked_http_url,
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
    fields = parse_upstreams(values.get("upstream", ()))
    adopted = _adopted_upstreams(fields, environ) if command and live else {}
    return Settings(
        cassettes=values["cassettes"],
        host=values["host"],
        port=(0 if command else PORT) if port is None else port,
        port_file=values["port_file"],
        upstreams=adopted | fields,
        client_chosen_upstreams=_client_chooses(adopted),
        upstream_proxy=_proxy_url(values.get("upstream_proxy") or ""),
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
        faults=_fault_rules(values),
        fault_header=values["fault_header"],
        journal=_journal_path(values["journal"]),
        state=state_folder(environ),
        matching=_matching_settings(values),
        care=LibraryChecks(
            fail_on_unused=values["fail_on_unused"],
            max_age=parse_max_age(values["max_age"]) if values["max_age"] else None,
        ),
        simulating=SimulationOptions(
            scenarios=values["scenarios"],
            mock=values["mock"] or "",
            respond=values["respond"] or "",
            on_unknown=values["on_unknown"],
            clock=values["clock"],
            silence=values["silence"],
        ),
    )


def _matching_settings(values: dict[str, Any]) -> MatchingOptions:
    match_settings = parse_match(values["match"])
    return MatchingOptions(
        session=values["session"],
        rules=EXACT if match_settings.is_exact else parse_rules(values["normalise"]),
        nearest=match_settings.minimum_similarity,
        collapse_retries=values["collapse_retries"],
    )


def _fault_rules(values: dict[str, Any]) -> tuple[FaultRule, ...]:
    pair = faults_of(values["fault"])
    if values["faults"] is None:
        return pair
    from llm_proxy.shell.running.fault_rules import read_fault_rules  # noqa: PLC0415 # only where one is given

    return pair + read_fault_rules(values["faults"])


def _journal_path(path: Path | None) -> Path | None:
    if path is not None:
        check_writable(path)
    return path


def _adopted_upstreams(fields: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """The addresses that the environment of a COMMAND names, where nothing that is given wins."""
    from llm_proxy.shell.running.environment import adopted_upstreams  # noqa: PLC0415 # only to serve

    return {} if ANY in fields else adopted_upstreams(environ, fields)


def _client_chooses(adopted: Mapping[str, str]) -> frozenset[str]:
    from llm_proxy.shell.running.environment import providers_with_v1  # noqa: PLC0415 # only to serve

    return providers_with_v1(adopted)


def _proxy_url(url: str) -> str | None:
    return checked_http_url("--upstream-proxy", url.strip()) if url.strip() else None
