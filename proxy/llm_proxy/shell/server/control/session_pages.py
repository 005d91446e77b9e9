"""Control pages that reset a session or choose its scenario."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Final

from llm_proxy.dialects import lenient_json
from llm_proxy.errors import printable_excerpt
from llm_proxy.modes import Mode
from llm_proxy.routing import is_valid_name
from llm_proxy.shell.server.control.page import PageRequest, PageResponse
from llm_proxy.turns import Json

ChooseScenario = Callable[[str, str], Awaitable[bool]]
"""Sets the scenario of a session, from the session's name and a scenario id; an empty id removes
the choice.  Returns whether that scenario is loaded now."""

ResetSession = Callable[[str], None]
"""Restarts the session of that name."""

_PATH: Final = re.compile(r"/_proxy/sessions/([^/]+)/(reset|scenario)")
_MAX_NAME_CHARS: Final = 80
"""Maximum length of a name in a message."""


class SessionPages:
    """`/_proxy/sessions/NAME/…`: reset a session, or choose its scenario."""

    def __init__(
        self,
        mode: Mode,
        choose_scenario: ChooseScenario | None,
        reset_callbacks: tuple[ResetSession, ...] = (),
    ) -> None:
        """`choose_scenario` is None if no scenarios are played.

        `reset_callbacks` are called in addition to the mode's `reset`.
        """
        self._mode = mode
        self._choose_callback = choose_scenario
        self._reset_callbacks = (mode.reset_session, *reset_callbacks)

    async def __call__(self, page_request: PageRequest, /) -> PageResponse | None:
        """The response; None if the request is for another page."""
        path_match = _PATH.fullmatch(page_request.path)
        if path_match is None:
            return None
        session, operation = path_match.groups()
        match page_request.method, operation:
            case "PUT", "scenario":
                scenario = lenient_json.parse_object(page_request.body).get("scenario")
                return await self._choose_scenario(session, scenario)
            case "DELETE", "scenario":
                return await self._choose_scenario(session, "")
            case "POST", "reset":
                for reset in self._reset_callbacks:
                    reset(session)
                return 200, {"session": session, "reset": True}
            case _:
                return None

    async def _choose_scenario(self, session: str, scenario: Json) -> PageResponse:
        """Set a session's scenario by its id; an empty id removes the choice."""
        if self._choose_callback is None:
            return 409, {"error": f"{self._mode.name} plays no scenarios; start llm-proxy simulate"}
        if not is_valid_name(session):
            return 400, {
                "error": f"'{printable_excerpt(session, _MAX_NAME_CHARS)}' is no session name: use "
                "letters, digits, dot, dash and underscore, a letter or a digit first, at most "
                "100 of them"
            }
        if not isinstance(scenario, str):
            return 400, {"error": 'name a scenario: {"scenario": "ID"}; "" takes the choice back'}
        scenario_id = scenario.strip()
        document = {"session": session, "scenario": scenario_id}
        if not await self._choose_callback(session, scenario_id):
            document["warning"] = (
                f"no scenario {printable_excerpt(scenario_id, _MAX_NAME_CHARS)} is loaded now; "
                "it is chosen all the same, and answers once it is there: llm-proxy scenario "
                "ls lists all ids"
            )
        return 200, document
