"""Builds the frozen `Settings` from option values."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from llm_proxy.ages import parse_max_age
from llm_proxy.cli.options.server import DEFAULT_PORT
from llm_proxy.faults.grammar import parse_rules as faults_of
from llm_proxy.faults.rule import FaultRule
from llm_proxy.matching.option_grammar import parse_match_settings, parse_rules
from llm_proxy.matching.rules import EXACT_MATCH
from llm_proxy.pacing import parse_pace
from llm_proxy.providers import DEFAULT_PROVIDER
from llm_proxy.shell.running.journal_file import check_writable
from llm_proxy.shell.running.settings import (
    LibraryChecks,
    MatchingOptions,
    Settings,
    SimulationOptions,
    checked_http_url,
    default_spool_folder,
    parse_upstreams,
    state_folder,
)


def build_settings(
    option_values: dict[str, Any], command: tuple[str, ...], *, contacts_provider: bool
) -> Settings:
    """The frozen settings for option values.

    `contacts_provider` is whether requests may be sent to a provider.  Only then, and only with
    a `command`, base URLs in the environment become upstreams.  Raises `UsageError` for invalid
    values.
    """
    environ = os.environ
    port = option_values["port"]
    explicit_upstreams = parse_upstreams(option_values.get("upstream", ()))
    adopted = (
        _adopted_upstreams(explicit_upstreams, environ) if command and contacts_provider else {}
    )
    return Settings(
        cassettes=option_values["cassettes"],
        host=option_values["host"],
        port=(0 if command else DEFAULT_PORT) if port is None else port,
        port_file=option_values["port_file"],
        upstreams=adopted | explicit_upstreams,
        client_chosen_upstreams=_client_chosen_upstreams(adopted),
        upstream_proxy=_checked_upstream_proxy_url(option_values.get("upstream_proxy") or ""),
        idle_timeout=option_values.get("idle_timeout", 300.0),
        finish_on_disconnect=option_values.get("finish_on_disconnect", False),
        max_body=option_values["max_body"],
        pace=parse_pace(option_values["pace"]),
        after_last=option_values.get("after_last", "repeat"),
        on_miss=option_values.get("on_miss") or "record",
        allow_partial=option_values["allow_partial"],
        strict=option_values["strict"],
        allow_hosts=frozenset(name.lower() for name in option_values["allow_host"]),
        allow_origins=frozenset(option_values["allow_origin"]),
        spool=option_values.get("spool") or default_spool_folder(environ),
        log_format=option_values["log_format"],
        sign=option_values.get("sign"),
        seed=option_values["seed"],
        faults=_fault_rules(option_values),
        fault_header=option_values["fault_header"],
        journal=_journal_path(option_values["journal"]),
        state=state_folder(environ),
        matching=_build_matching_options(option_values),
        library_checks=LibraryChecks(
            fail_on_unused=option_values["fail_on_unused"],
            max_age=parse_max_age(option_values["max_age"]) if option_values["max_age"] else None,
        ),
        simulating=SimulationOptions(
            scenarios=option_values["scenarios"],
            mock=option_values["mock"] or "",
            respond=option_values["respond"] or "",
            on_unknown=option_values["on_unknown"],
            clock=option_values["clock"],
            silence=option_values["silence"],
        ),
    )


def _build_matching_options(option_values: dict[str, Any]) -> MatchingOptions:
    match_settings = parse_match_settings(option_values["match"])
    return MatchingOptions(
        session=option_values["session"],
        rules=EXACT_MATCH if match_settings.is_exact else parse_rules(option_values["normalise"]),
        nearest=match_settings.minimum_similarity,
        collapse_retries=option_values["collapse_retries"],
    )


def _fault_rules(option_values: dict[str, Any]) -> tuple[FaultRule, ...]:
    rules = faults_of(option_values["fault"])
    if option_values["faults"] is None:
        return rules
    from llm_proxy.shell.running.fault_rules import read_fault_rules  # noqa: PLC0415 # only where one is given

    return rules + read_fault_rules(option_values["faults"])


def _journal_path(path: Path | None) -> Path | None:
    if path is not None:
        check_writable(path)
    return path


def _adopted_upstreams(
    explicit_upstreams: Mapping[str, str], environ: Mapping[str, str]
) -> dict[str, str]:
    """Base URLs from the environment, but for the providers that have an explicit upstream."""
    from llm_proxy.shell.running.environment import adopted_upstreams  # noqa: PLC0415 # only to serve

    return (
        {}
        if DEFAULT_PROVIDER in explicit_upstreams
        else adopted_upstreams(environ, explicit_upstreams)
    )


def _client_chosen_upstreams(adopted: Mapping[str, str]) -> frozenset[str]:
    from llm_proxy.shell.running.environment import providers_with_v1  # noqa: PLC0415 # only to serve

    return providers_with_v1(adopted)


def _checked_upstream_proxy_url(url: str) -> str | None:
    return checked_http_url("--upstream-proxy", url.strip()) if url.strip() else None
