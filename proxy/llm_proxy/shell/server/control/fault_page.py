"""The control page that shows and sets faults while the proxy runs."""

from __future__ import annotations

import asyncio
from typing import Final

from llm_proxy.dialects import lenient_json
from llm_proxy.errors import UsageError
from llm_proxy.faults.grammar import parse_rules
from llm_proxy.shell.server.control import READ_METHODS, PageRequest, PageResponse
from llm_proxy.shell.server.fault_middleware import FaultMiddleware

_PATH: Final = "/_proxy/faults"
_MAX_RULES: Final = 1000
"""Maximum number of runtime rules."""
_BODY_ERROR: Final = 'name the faults: {"faults": ["reset,after=3"]}; DELETE takes them back'


class FaultPage:
    """`/_proxy/faults`: the fault rules of the run."""

    def __init__(self, fault_middleware: FaultMiddleware) -> None:
        self._fault_middleware = fault_middleware

    async def __call__(self, page_request: PageRequest, /) -> PageResponse | None:
        """The response; None if the request is for another page."""
        if page_request.path != _PATH:
            return None
        match page_request.method:
            case "DELETE":
                self._fault_middleware.set_rules(())
            case "PUT":
                if error := await self._set_rules(page_request.body):
                    return 400, {"error": error}
            case _ if page_request.method not in READ_METHODS:
                return None
            case _:
                pass
        engine = self._fault_middleware.engine
        rule_lists = {
            "given": engine.startup_rules,
            "faults": engine.runtime_rules,
            "scripted": engine.scenario_rules,
        }
        return 200, {
            name: [active_rule.to_json_fields() for active_rule in rules]
            for name, rules in rule_lists.items()
        }

    async def _set_rules(self, body: bytes) -> str:
        """Why the rules in this body cannot be set; empty where they are."""
        document = lenient_json.parse_object(body)
        rule_texts = document.get("faults")
        if not isinstance(rule_texts, list) or document.keys() != {"faults"}:
            return _BODY_ERROR
        if len(rule_texts) > _MAX_RULES:
            return f"there may be {_MAX_RULES} faults, and these are {len(rule_texts)}"
        try:
            rules = await asyncio.to_thread(parse_rules, rule_texts)
        except UsageError as error:
            return str(error)
        self._fault_middleware.set_rules(rules)
        return ""
