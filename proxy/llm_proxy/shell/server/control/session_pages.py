"""Control pages that reset a session or choose its scenario."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Final

from llm_proxy.dialects import lenient_json
from llm_proxy.errors import printable
from llm_proxy.modes import Mode
from llm_proxy.routing import is_valid_name
from llm_proxy.shell.server.control.page import Answered, PageRequest
from llm_proxy.turns import Json

Choose = Callable[[str, str], Awaitable[bool]]
"""Has a session, named first, answered by the scenario of that id, or by what it asks for where
the id is empty; gives whether there is such a scenario now."""

Reset = Callable[[str], None]
"""Begins a session again."""

_PAGE: Final = re.compile(r"/_proxy/sessions/([^/]+)/(reset|scenario)")
_SHOWN: Final = 80
"""Characters of a name in a message."""


class SessionPages:
    """What can be done with a session from outside."""

    def __init__(self, mode: Mode, choose: Choose | None, resets: tuple[Reset, ...] = ()) -> None:
        """`choose` is None where no scenarios are played; `resets` are called beside the mode's."""
        self._mode = mode
        self._choose = choose
        self._reset_callbacks = (mode.reset, *resets)

    async def __call__(self, page_request: PageRequest, /) -> Answered | None:
        """The page, where it is one of these."""
        page = _PAGE.fullmatch(page_request.path)
        if page is None:
            return None
        session, label = page.groups()
        match page_request.method, label:
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

    async def _choose_scenario(self, session: str, scenario: Json) -> Answered:
        """Have a session answered by the scenario of that id; an empty one takes it back."""
        if self._choose is None:
            return 409, {"error": f"{self._mode.name} plays no scenarios; start llm-proxy simulate"}
        if not is_valid_name(session):
            return 400, {
                "error": f"'{printable(session, _SHOWN)}' is no session name: use letters, digits, "
                "dot, dash and underscore, a letter or a digit first, at most 100 of them"
            }
        if not isinstance(scenario, str):
            return 400, {"error": 'name a scenario: {"scenario": "ID"}; "" takes the choice back'}
        name = scenario.strip()
        answer = {"session": session, "scenario": name}
        if not await self._choose(session, name):
            answer["warning"] = (
                f"no scenario {printable(name, _SHOWN)} is loaded now; it is chosen all the same, "
                "and answers once it is there: llm-proxy scenario ls lists all ids"
            )
        return 200, answer
