"""Checks settings at start: errors, and warnings about settings without effect."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Final

from llm_proxy import providers
from llm_proxy.errors import UsageError
from llm_proxy.shell.library.library import cassette_files
from llm_proxy.shell.running.environment import KEYS, missing_key_variables
from llm_proxy.shell.running.settings import Settings, SimulationOptions
from llm_proxy.shell.running.simulation import is_simulating

_OF_FAULTS: Final = ("silence", "clock")
"""Options of simulation that faults go by, too."""
_EFFECTIVE: Final = os.access in os.supports_effective_ids


def records_anything(mode: str, settings: Settings) -> bool:
    """Whether anything can be recorded in this mode."""
    return mode == "record" or (mode == "auto" and settings.on_miss == "record")


def auto_goes_live(settings: Settings) -> bool:
    """Whether `auto` asks a provider for what is not on disk."""
    return settings.on_miss in {"record", "passthrough"}


def check_folders(settings: Settings) -> None:
    """Raise `UsageError` where recordings cannot be written; nothing is made by asking."""
    for option, folder in (("--cassettes", settings.cassettes), ("--spool", settings.spool)):
        there = _nearest_existing(folder.absolute())
        if not there.is_dir():
            raise UsageError(
                f"{option} {folder} cannot be written: {there} is no folder; give one that you "
                "may write to"
            )
        if not os.access(there, os.W_OK | os.X_OK, effective_ids=_EFFECTIVE):
            raise UsageError(
                f"{option} {folder} cannot be written: you may not write to {there}; give a "
                "folder where you may"
            )


def settings_warnings(mode: str, settings: Settings) -> Iterator[str]:
    """A sentence for each setting that is allowed, and will hardly do what is meant."""
    if (text := _unused_check_options(settings)) and mode in {"record", "simulate"}:
        yield f"{text} without effect: {mode} plays no cassette"
    if mode == "simulate":
        return
    yield from _unused_simulation_warnings(mode, settings)
    if mode == "replay":
        if next(cassette_files(settings.cassettes), None) is None:
            there = settings.cassettes.exists()
            lack = "holds no cassettes" if there else "does not exist"
            yield (
                f"{settings.cassettes}/ {lack}: every request will be a miss; record some with "
                "llm-proxy record"
                + ("" if there else ", or give --cassettes the folder that has them")
            )
        return
    known = [*(provider.name for provider in providers.PROVIDERS), providers.ANY]
    for name, url in settings.upstreams.items():
        if name not in known:
            near = difflib.get_close_matches(name.lower(), known, 1)
            hint = f" (did you mean {near[0]}?)" if near else ""
            yield (
                f"--upstream {name}={url}: no path belongs to {name}; it is used for "
                f"/~{name}/... alone{hint}"
            )


def _unused_check_options(settings: Settings) -> str:
    document = {
        "--fail-on-unused": settings.care.fail_on_unused,
        "--max-age": settings.care.max_age,
    }
    names = [name for name, value in document.items() if value]
    return f"{' and '.join(names)} {'is' if len(names) == 1 else 'are'}" if names else ""


def _unused_simulation_warnings(mode: str, settings: Settings) -> Iterator[str]:
    """What is said of options of simulation where nothing is simulated."""
    if is_simulating(mode, settings):
        return
    plain = SimulationOptions()
    options = [
        f"--{field.name.replace('_', '-')}"
        for field in fields(SimulationOptions)
        if getattr(settings.simulating, field.name) != getattr(plain, field.name)
        and not (field.name in _OF_FAULTS and settings.faults)
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
    """What to say of keys that are none, where a request could go live with one; mostly nothing."""
    names = [
        name
        for name in missing_key_variables(environ)
        if _is_public_address(KEYS[name], settings.upstreams)
    ]
    if mode != "auto" or not auto_goes_live(settings) or not names:
        return ""
    verb, dummy = ("is", "a dummy") if len(names) == 1 else ("are", "dummies")
    return (
        f"{', '.join(names)} {verb} not set: the command has {dummy}, which live requests will not "
        "be served with where a key is asked for"
    )


def _is_public_address(provider: str, upstreams: Mapping[str, str]) -> bool:
    """Whether requests of this provider go to its built-in address: one of ours may need no key."""
    configured = provider in upstreams or providers.ANY in upstreams
    return not configured and providers.upstream_address(provider, {}) is not None


def _nearest_existing(path: Path) -> Path:
    """`path`, or what is nearest above it of what exists; a broken link exists."""
    return next(item for item in (path, *path.parents) if os.path.lexists(item))
