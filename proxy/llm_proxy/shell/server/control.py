"""The control pages under `/_proxy/`.

GET  /_proxy/health                    that the proxy serves, its mode, cassettes and session
GET  /_proxy/journal                   the requests and responses of this run
GET  /_proxy/verdict                   the verdict on the clients' behaviour after each fault
GET  /_proxy/misses                    the requests that were not answered, and why
GET  /_proxy/unsuccessful              sessions that did not do as their scenarios expect, and why
GET  /_proxy/pace                      the pace of responses
PUT  /_proxy/pace                      set it: {"pace": "50tps"}, and for one session {"session": …}
DELETE /_proxy/pace                    restore the pace that the run was started with
GET  /_proxy/faults                    the fault rules, and how often each was injected
PUT  /_proxy/faults                    set the runtime rules: {"faults": ["reset,after=3"]}
DELETE /_proxy/faults                  remove the runtime rules
POST /_proxy/sessions/NAME/reset       restart a session
PUT  /_proxy/sessions/NAME/scenario    choose a session's scenario: {"scenario": "ID"}
DELETE /_proxy/sessions/NAME/scenario  remove the choice, as {"scenario": ""} does
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson
from aiohttp import web

from llm_proxy.cassette.model import DEFAULT_SESSION
from llm_proxy.dialects import lenient_json
from llm_proxy.display import path_as_unicode_text
from llm_proxy.errors import UsageError, printable_excerpt
from llm_proxy.faults.grammar import parse_rules
from llm_proxy.pacing import Pace, PaceRegistry, parse_pace
from llm_proxy.routing import is_valid_name
from llm_proxy.shell.server.fault_middleware import FaultMiddleware
from llm_proxy.shell.server.journal import Journal
from llm_proxy.shell.server.response_writer import ResponseWriter
from llm_proxy.shell.server.sessions import SessionRegistry
from llm_proxy.verdict.judging import judge_run, verdict_document
from llm_proxy.version import __version__

PageResponse = tuple[int, Mapping[str, Any]]
"""The status, and the document that is sent as JSON."""

_SESSION_PATH: Final = re.compile(r"/_proxy/sessions/([^/]+)/(reset|scenario)")
_MAX_NAME_CHARS: Final = 80
"""Maximum length of a name in a message."""
_MAX_RULES: Final = 1000
"""Maximum number of runtime rules."""
_FAULTS_ERROR: Final = (
    'expected JSON such as {"faults": ["reset,after=3"]}; to remove all runtime faults, use DELETE'
)


@dataclass(frozen=True, slots=True)
class ControlPages:
    """Responds to requests for control pages."""

    sessions: SessionRegistry
    journal: Journal
    paces: PaceRegistry
    fault_middleware: FaultMiddleware
    default_session: str = DEFAULT_SESSION
    """The session of requests that name none."""

    async def respond(
        self, request: web.BaseRequest, request_body: bytes, writer: ResponseWriter
    ) -> None:
        """Send the JSON document of the page that `request` names, or of a 404.

        `request_body` is the body of `request`, which has been read already.
        """
        error = f"no such page: {request.method} {request.path}; see docs/reference/server.md"
        response = await self.page_response(request.method, request.path, request_body)
        status, document = response or (404, {"error": error})
        if any(isinstance(value, list) for value in document.values()):  # it may be long
            response_body = await asyncio.to_thread(_serialize_document, document)
        else:
            response_body = _serialize_document(document)
        headers = (("Content-Type", "application/json"), ("Cache-Control", "no-store"))
        await writer.send_response(status, headers, response_body)

    @property
    def _default_mode_name(self) -> str:
        return self.sessions.default_mode.mode.name

    async def page_response(self, method: str, path: str, body: bytes) -> PageResponse | None:
        """The response of a page; None if there is no such page."""
        if session_path := _SESSION_PATH.fullmatch(path):
            return await self._session_page(method, body, *session_path.groups())
        method = "GET" if method == "HEAD" else method
        match method, path.removeprefix("/_proxy/"):
            case "GET", "health":
                return 200, self._health_document()
            case "GET", "journal":
                return 200, self.journal.to_json_document()
            case "GET", "verdict":
                entries = self.journal.copied_entries()
                closures = tuple(self.journal.listener_closures)
                # In a thread: the journal may be long.
                return 200, await asyncio.to_thread(
                    lambda: verdict_document(judge_run(entries, closures))
                )
            case "GET", "misses":
                return 200, {"misses": list(self.journal.misses)}
            case "GET", "unsuccessful":
                return 200, {"unsuccessful": list(self.journal.failed_sessions)}
            case "GET", "pace":
                return self._paces_page()
            case "PUT" | "DELETE", "pace":
                return self._set_pace(method, body)
            case "GET" | "PUT" | "DELETE", "faults":
                return await self._faults_page(method, body)
            case _:
                return None

    async def _session_page(
        self, method: str, body: bytes, session: str, operation: str
    ) -> PageResponse | None:
        match method, operation:
            case "PUT", "scenario":
                scenario = lenient_json.parse_object(body).get("scenario")
            case "DELETE", "scenario":
                scenario = ""
            case "POST", "reset":
                self.sessions.mode_of(session).mode.reset_session(session)
                self.fault_middleware.reset_session(session)
                self.paces.set_pace(None, session)
                return 200, {"session": session, "reset": True}
            case _:
                return None
        return await self.choose_scenario(session, scenario)

    async def choose_scenario(self, session: str, scenario: Any) -> PageResponse:
        """Choose the scenario of a session by its id; an empty id removes the choice."""
        active_mode = self.sessions.mode_of(session)
        if active_mode.choose_scenario is None:
            return 409, {
                "error": f"llm-proxy {active_mode.mode.name} does not use scenarios; "
                "run llm-proxy simulate"
            }
        if not is_valid_name(session):
            return _invalid_session(session)
        if not isinstance(scenario, str):
            return 400, {
                "error": 'expected JSON such as {"scenario": "ID"}; '
                "an empty ID removes the selection"
            }
        scenario_id = scenario.strip()
        document = {"session": session, "scenario": scenario_id}
        similar_ids = await active_mode.choose_scenario(session, scenario_id)
        if similar_ids is not None:
            document["warning"] = (
                f"scenario {printable_excerpt(scenario_id, _MAX_NAME_CHARS)} is not loaded; once "
                f"it is loaded, the session will use it; {scenario_hint(similar_ids)}"
            )
        return 200, document

    def _health_document(self) -> Mapping[str, Any]:
        library = self.sessions.default_mode.library
        if library is None or self._default_mode_name == "simulate":
            cassettes = None
        else:
            cassettes = path_as_unicode_text(library.root.absolute())
        return {
            "ok": True,
            "mode": self._default_mode_name,
            "version": __version__,
            "cassettes": cassettes,
            "session": self.default_session,
        }

    def _set_pace(self, method: str, body: bytes) -> PageResponse:
        fields = lenient_json.parse_object(body)
        session = fields.get("session", "")
        active_mode = self.sessions.mode_of(session if isinstance(session, str) else "")
        if active_mode.mode.name == "record":
            return 409, {"error": "cannot set a pace: llm-proxy record forwards data as it arrives"}
        if not isinstance(session, str) or (session and not is_valid_name(session)):
            return _invalid_session(lenient_json.value_as_text(session))
        pace: Pace | None = None
        if method == "PUT":
            text = fields.get("pace")
            if not isinstance(text, str):
                return 400, {
                    "error": 'expected JSON such as {"pace": "50tps"}; see docs/reference/pacing.md'
                }
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

    async def _faults_page(self, method: str, body: bytes) -> PageResponse:
        if method == "DELETE":
            self.fault_middleware.set_rules(())
        elif method == "PUT":
            document = lenient_json.parse_object(body)
            rule_texts = document.get("faults")
            if not isinstance(rule_texts, list) or document.keys() != {"faults"}:
                return 400, {"error": _FAULTS_ERROR}
            if len(rule_texts) > _MAX_RULES:
                return 400, {
                    "error": f"expected at most {_MAX_RULES} faults, got {len(rule_texts)}"
                }
            try:
                self.fault_middleware.set_rules(await asyncio.to_thread(parse_rules, rule_texts))
            except UsageError as error:
                return 400, {"error": str(error)}
        engine = self.fault_middleware.engine
        rule_lists = {
            "configured": engine.startup_rules,
            "faults": engine.runtime_rules,
            "scripted": engine.scenario_rules,
        }
        return 200, {
            name: [active_rule.to_json_fields() for active_rule in rules]
            for name, rules in rule_lists.items()
        }


def scenario_hint(similar_ids: Sequence[str]) -> str:
    """A hint for an unknown scenario id."""
    if similar_ids:
        return f"did you mean {' or '.join(similar_ids)}?"
    return "to list all IDs, run llm-proxy scenario ls"


def _invalid_session(session: str) -> PageResponse:
    return 400, {
        "error": f"'{printable_excerpt(session, _MAX_NAME_CHARS)}' is not a valid session name: "
        "use at most 100 letters, digits, dots, dashes and underscores"
    }


def _serialize_document(document: Mapping[str, Any]) -> bytes:
    """The document as JSON; list elements one by one, because orjson holds the GIL in each call."""
    fragments = {
        name: [orjson.Fragment(orjson.dumps(element)) for element in value]
        if isinstance(value, list)
        else value
        for name, value in document.items()
    }
    return orjson.dumps(fragments, option=orjson.OPT_APPEND_NEWLINE)
