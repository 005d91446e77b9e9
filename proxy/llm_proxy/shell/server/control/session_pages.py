"""Pages by which a session is begun again, or given a scenario."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Final

from llm_proxy.dialects import lenient_json
from llm_proxy.errors import printable
from llm_proxy.modes import Mode
from llm_proxy.routing import is_name
from llm_proxy.shell.server.control.page import Answered, Asked
from llm_proxy.turns import Json

Choose = Callable[[str, str], Awaitable[bool]]
"""Has a session, named first, answered by the scenario of that id, or by what it asks for where
the id is empty; gives whether there is such a scenario now."""

Reset = Callable[[str], None]
"""Begins a session again."""

_PAGE: Final = re.compile(r"/_proxy/sessions/([^/]+)/(reset|scenario)")
_SHOWN: Final = 80
"""Characters of a name in a message."""


class Sessions:
    """What can be done with a session from outside."""

    def __init__(self, mode: Mode, choose: Choose | None, resets: tuple[Reset, ...] = ()) -> None:
        """`choose` is None where no scenarios are played; `resets` are called beside the mode's."""
        self._mode = mode
        self._choose = choose
        self._resets = (mode.reset, *resets)

    async def __call__(self, asked: Asked, /) -> Answered | None:
        """The page, where it is one of these."""
        page = _PAGE.fullmatch(asked.path)
        if page is None:
            return None
        session, what = page.groups()
        match asked.method, what:
            case "PUT", "scenario":
                scenario = lenient_json.document(asked.body).get("scenario")
                return await self._chosen(session, scenario)
            case "DELETE", "scenario":
                return await self._chosen(session, "")
            case "POST", "reset":
                for reset in self._resets:
                    reset(session)
                return 200, {"session": session, "reset": True}
            case _:
                return None

    async def _chosen(self, session: str, scenario: Json) -> Answered:
        """Have a session answered by the scenario of that id; an empty one takes it back."""
        if self._choose is None:
            return 409, {"error": f"{self._mode.name} plays no scenarios; start llm-proxy simulate"}
        if not is_name(session):
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
