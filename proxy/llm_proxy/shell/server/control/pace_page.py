"""The control page that shows and sets the pace."""

from __future__ import annotations

from typing import Final

from llm_proxy.dialects import lenient_json
from llm_proxy.errors import UsageError, printable_excerpt
from llm_proxy.pacing import Pace, parse_pace
from llm_proxy.routing import is_valid_name
from llm_proxy.shell.running.pace_registry import PaceRegistry
from llm_proxy.shell.server.control.page import READ_METHODS, PageRequest, PageResponse

_PATH: Final = "/_proxy/pace"
_MAX_NAME_CHARS: Final = 80
"""Maximum length of a name in a message."""


class PacePage:
    """`/_proxy/pace`: the pace of the run and of its sessions."""

    def __init__(self, paces: PaceRegistry, mode: str) -> None:
        """`mode` is the name of the mode."""
        self._paces = paces
        self._mode = mode

    async def __call__(self, page_request: PageRequest, /) -> PageResponse | None:
        """The response; None if the request is for another page."""
        if page_request.path != _PATH:
            return None
        match page_request.method:
            case method if method in READ_METHODS:
                return 200, self._paces_document()
            case "PUT" | "DELETE":
                return self._set_pace(page_request)
            case _:
                return None

    def _set_pace(self, page_request: PageRequest) -> PageResponse:
        if self._mode == "record":
            return 409, {"error": "record passes answers on as they come, at no pace of ours"}
        fields = lenient_json.parse_object(page_request.body)
        session = fields.get("session", "")
        if not isinstance(session, str) or (session and not is_valid_name(session)):
            shown_session = printable_excerpt(lenient_json.value_as_text(session), _MAX_NAME_CHARS)
            return 400, {
                "error": f"'{shown_session}' is no session name: use letters, digits, dot, "
                "dash and underscore, a letter or a digit first, at most 100 of them"
            }
        pace: Pace | None = None
        if page_request.method == "PUT":
            text = fields.get("pace")
            if not isinstance(text, str):
                return 400, {"error": 'say a pace: {"pace": "50tps"}; docs/pacing.md has them all'}
            try:
                pace = parse_pace(text)
            except UsageError as error:
                return 400, {"error": str(error)}
        self._paces.set_pace(pace, session)
        return 200, self._paces_document()

    def _paces_document(self) -> dict[str, object]:
        pace_registry = self._paces
        return {
            "pace": str(pace_registry.default_pace),
            "started_with": str(pace_registry.startup_pace),
            "sessions": {name: str(pace) for name, pace in pace_registry.session_paces.items()},
            "seed": pace_registry.seed,
        }
