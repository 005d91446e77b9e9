"""The page by which the pace is asked for, set, and taken back while the proxy runs."""

from __future__ import annotations

from typing import Final

from llm_proxy.dialects import lenient_json
from llm_proxy.errors import UsageError, printable
from llm_proxy.pacing import Pace, parse_pace
from llm_proxy.routing import is_name
from llm_proxy.shell.running.pace_registry import Paces
from llm_proxy.shell.server.control.page import READS, Answered, Asked

_PAGE: Final = "/_proxy/pace"
_SHOWN: Final = 80
"""Characters of a name in a message."""


class Pacing:
    """What can be done with the pace from outside."""

    def __init__(self, paces: Paces, mode: str) -> None:
        """`mode` is the name of the mode."""
        self._paces = paces
        self._mode = mode

    async def __call__(self, asked: Asked, /) -> Answered | None:
        """The page, where it is this one."""
        if asked.path != _PAGE:
            return None
        match asked.method:
            case method if method in READS:
                return 200, self._told()
            case "PUT" | "DELETE":
                return self._set(asked)
            case _:
                return None

    def _set(self, asked: Asked) -> Answered:
        if self._mode == "record":
            return 409, {"error": "record passes answers on as they come, at no pace of ours"}
        said = lenient_json.document(asked.body)
        session = said.get("session", "")
        if not isinstance(session, str) or (session and not is_name(session)):
            return 400, {
                "error": f"'{printable(lenient_json.words(session), _SHOWN)}' "
                "is no session name: use "
                "letters, digits, dot, dash and underscore, a letter or a digit first, at most 100 "
                "of them"
            }
        pace: Pace | None = None
        if asked.method == "PUT":
            text = said.get("pace")
            if not isinstance(text, str):
                return 400, {"error": 'say a pace: {"pace": "50tps"}; docs/pacing.md has them all'}
            try:
                pace = parse_pace(text)
            except UsageError as error:
                return 400, {"error": str(error)}
        self._paces.set(pace, session)
        return 200, self._told()

    def _told(self) -> dict[str, object]:
        """All paces, as the grammar spells them."""
        it = self._paces
        return {
            "pace": str(it.pace),
            "started_with": str(it.started),
            "sessions": {name: str(pace) for name, pace in it.sessions.items()},
            "seed": it.seed,
        }
