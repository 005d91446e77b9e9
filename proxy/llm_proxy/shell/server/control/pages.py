"""The control pages of the run: its state, verdict, journal, sessions and paces."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from llm_proxy.dialects import lenient_json
from llm_proxy.errors import UsageError, printable_excerpt
from llm_proxy.modes import Mode
from llm_proxy.pacing import Pace, PaceRegistry, parse_pace
from llm_proxy.routing import is_valid_name
from llm_proxy.shell.server.control import READ_METHODS, PageRequest, PageResponse
from llm_proxy.shell.server.journal import Journal
from llm_proxy.verdict.judging import judge_run, verdict_document
from llm_proxy.version import __version__

ChooseScenario = Callable[[str, str], Awaitable[bool]]
"""Sets the scenario of a session, from the session's name and a scenario id; an empty id removes
the choice.  Returns whether that scenario is loaded now."""

ResetSession = Callable[[str], None]
"""Restarts the session of that name."""

_SESSION_PATH: Final = re.compile(r"/_proxy/sessions/([^/]+)/(reset|scenario)")
_MAX_NAME_CHARS: Final = 80
"""Maximum length of a name in a message."""


@dataclass(frozen=True, slots=True)
class RunPages:
    """The pages of the run: its state, verdict, journal, sessions and paces."""

    mode: Mode
    journal: Journal
    paces: PaceRegistry
    choose_scenario: ChooseScenario | None
    """None if no scenarios are played."""
    reset_callbacks: tuple[ResetSession, ...] = ()
    """Called in addition to the mode's `reset_session`."""

    async def __call__(self, request: PageRequest, /) -> PageResponse | None:
        """The response; None if the request is for another page."""
        if session_path := _SESSION_PATH.fullmatch(request.path):
            return await self._session_page(request, *session_path.groups())
        method = "GET" if request.method in READ_METHODS else request.method
        match method, request.path.removeprefix("/_proxy/"):
            case "GET", "health":
                return 200, {"ok": True, "mode": self.mode.name, "version": __version__}
            case "GET", "journal":
                return 200, self.journal.to_json_document()
            case "GET", "verdict":
                entries = self.journal.copied_entries()
                # In a thread: the journal may be long.
                return 200, await asyncio.to_thread(lambda: verdict_document(judge_run(entries)))
            case "GET", "misses":
                return 200, {"misses": list(self.journal.misses)}
            case "GET", "unsuccessful":
                return 200, {"unsuccessful": list(self.journal.failed_sessions)}
            case "GET", "pace":
                return self._paces_page()
            case "PUT" | "DELETE", "pace":
                return self._set_pace(request)
            case _:
                return None

    async def _session_page(
        self, request: PageRequest, session: str, operation: str
    ) -> PageResponse | None:
        match request.method, operation:
            case "PUT", "scenario":
                scenario = lenient_json.parse_object(request.body).get("scenario")
            case "DELETE", "scenario":
                scenario = ""
            case "POST", "reset":
                for reset in (self.mode.reset_session, *self.reset_callbacks):
                    reset(session)
                return 200, {"session": session, "reset": True}
            case _:
                return None
        if self.choose_scenario is None:
            return 409, {"error": f"{self.mode.name} plays no scenarios; start llm-proxy simulate"}
        if not is_valid_name(session):
            return _invalid_session(session)
        if not isinstance(scenario, str):
            return 400, {"error": 'name a scenario: {"scenario": "ID"}; "" takes the choice back'}
        scenario_id = scenario.strip()
        document = {"session": session, "scenario": scenario_id}
        if not await self.choose_scenario(session, scenario_id):
            document["warning"] = (
                f"no scenario {printable_excerpt(scenario_id, _MAX_NAME_CHARS)} is loaded now; "
                "it is chosen all the same, and answers once it is there: llm-proxy scenario "
                "ls lists all ids"
            )
        return 200, document

    def _set_pace(self, request: PageRequest) -> PageResponse:
        if self.mode.name == "record":
            return 409, {"error": "record passes answers on as they come, at no pace of ours"}
        fields = lenient_json.parse_object(request.body)
        session = fields.get("session", "")
        if not isinstance(session, str) or (session and not is_valid_name(session)):
            return _invalid_session(lenient_json.value_as_text(session))
        pace: Pace | None = None
        if request.method == "PUT":
            text = fields.get("pace")
            if not isinstance(text, str):
                return 400, {"error": 'say a pace: {"pace": "50tps"}; docs/pacing.md has them all'}
            try:
                pace = parse_pace(text)
            except UsageError as error:
                return 400, {"error": str(error)}
        self.paces.set_pace(pace, session)
        return self._paces_page()

    def _paces_page(self) -> PageResponse:
        return 200, {
            "pace": str(self.paces.default_pace),
            "started_with": str(self.paces.startup_pace),
            "sessions": {name: str(pace) for name, pace in self.paces.session_paces.items()},
            "seed": self.paces.seed,
        }


def _invalid_session(session: str) -> PageResponse:
    return 400, {
        "error": f"'{printable_excerpt(session, _MAX_NAME_CHARS)}' is no session name: use "
        "letters, digits, dot, dash and underscore, a letter or a digit first, at most 100 of them"
    }
