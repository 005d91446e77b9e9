"""Checks settings at start: errors, and warnings about settings without effect."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Final

from llm_proxy import providers
from llm_proxy.errors import UsageError
from llm_proxy.shell.library.library import walk_cassettes
from llm_proxy.shell.running.environment import missing_key_variables
from llm_proxy.shell.running.settings import Settings, SimulationOptions
from llm_proxy.shell.running.simulation import is_simulating

_SHARED_WITH_FAULTS: Final = ("silence", "clock")
"""Simulation options that faults use as well."""
_SUPPORTS_EFFECTIVE_IDS: Final = os.access in os.supports_effective_ids


def may_record(mode: str, settings: Settings) -> bool:
    """Whether this mode can record, with these settings."""
    return mode == "record" or (mode == "auto" and settings.on_miss == "record")


def auto_may_go_live(settings: Settings) -> bool:
    """Whether `auto` sends a miss to the provider, with these settings."""
    return settings.on_miss in {"record", "passthrough"}


def check_folders(settings: Settings) -> None:
    """Raise `UsageError` if recordings could not be written; creates nothing."""
    for option, folder in (("--cassettes", settings.cassettes), ("--spool", settings.spool)):
        path = folder.absolute()
        # A broken link counts as existing.
        existing = next(item for item in (path, *path.parents) if os.path.lexists(item))
        if not existing.is_dir():
            raise UsageError(
                f"{option} {folder} cannot be written: {existing} is no folder; give one that you "
                "may write to"
            )
        if not os.access(existing, os.W_OK | os.X_OK, effective_ids=_SUPPORTS_EFFECTIVE_IDS):
            raise UsageError(
                f"{option} {folder} cannot be written: you may not write to {existing}; give a "
                "folder where you may"
            )


def settings_warnings(mode: str, settings: Settings) -> Iterator[str]:
    """A warning for each setting that is valid but probably not what is meant."""
    checks = settings.library_checks
    given = {"--fail-on-unused": checks.fail_on_unused, "--max-age": checks.max_age}
    unused = [option for option, value in given.items() if value]
    if unused and mode in {"record", "simulate"}:
        verb = "is" if len(unused) == 1 else "are"
        yield f"{' and '.join(unused)} {verb} without effect: {mode} plays no cassette"
    if mode == "simulate":
        return
    yield from _unused_simulation_warnings(mode, settings)
    if mode == "replay":
        if next(walk_cassettes(settings.cassettes), None) is None:
            folder_exists = settings.cassettes.exists()
            problem = "holds no cassettes" if folder_exists else "does not exist"
            yield (
                f"{settings.cassettes}/ {problem}: every request will be a miss; record some with "
                "llm-proxy record"
                + ("" if folder_exists else ", or give --cassettes the folder that has them")
            )
        return
    known_names = [*(provider.name for provider in providers.PROVIDERS), providers.DEFAULT_PROVIDER]
    for name, url in settings.upstreams.items():
        if name not in known_names:
            close_matches = difflib.get_close_matches(name.lower(), known_names, 1)
            hint = f" (did you mean {close_matches[0]}?)" if close_matches else ""
            yield (
                f"--upstream {name}={url}: no path belongs to {name}; it is used for "
                f"/~{name}/... alone{hint}"
            )


def _unused_simulation_warnings(mode: str, settings: Settings) -> Iterator[str]:
    """A warning about simulation options if nothing is simulated."""
    if is_simulating(mode, settings):
        return
    defaults = SimulationOptions()
    options = [
        f"--{field.name.replace('_', '-')}"
        for field in fields(SimulationOptions)
        if getattr(settings.simulating, field.name) != getattr(defaults, field.name)
        and not (field.name in _SHARED_WITH_FAULTS and settings.faults)
    ]
    if not options:
        return
    verb = "has" if len(options) == 1 else "have"
    hint = (
        "record has the provider answer everything; llm-proxy simulate needs none"
        if mode == "record"
        else "give --on-miss scenario to have answered so what is not on disk"
    )
    yield f"{', '.join(options)} {verb} no effect: nothing is simulated in this run; {hint}"


def dummy_key_warning(mode: str, settings: Settings, environ: Mapping[str, str]) -> str:
    """A warning if live requests would be sent with dummy API keys; empty if not."""
    names = [
        name
        for name in missing_key_variables(environ)
        if _uses_builtin_address(providers.API_KEY_VARIABLES[name], settings.upstreams)
    ]
    if mode != "auto" or not auto_may_go_live(settings) or not names:
        return ""
    verb, dummy_noun = ("is", "a dummy") if len(names) == 1 else ("are", "dummies")
    return (
        f"{', '.join(names)} {verb} not set: the command has {dummy_noun}, which live requests "
        "will not be served with where a key is asked for"
    )


def _uses_builtin_address(provider: str, upstreams: Mapping[str, str]) -> bool:
    """Whether this provider has its built-in address: a configured one may need no key."""
    configured = provider in upstreams or providers.DEFAULT_PROVIDER in upstreams
    return not configured and providers.upstream_url(provider, {}) is not None
