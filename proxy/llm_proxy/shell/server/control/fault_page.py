"""Control pages that show and set faults while the proxy runs."""

from __future__ import annotations

import asyncio
from typing import Final

from llm_proxy.dialects import lenient_json
from llm_proxy.errors import UsageError
from llm_proxy.faults.grammar import parse_rules
from llm_proxy.shell.server.control.page import READS, Answered, PageRequest
from llm_proxy.shell.server.fault_middleware import FaultMiddleware

_PAGE: Final = "/_proxy/faults"
_MOST: Final = 1000
"""Rules at once."""
_HOW: Final = 'name the faults: {"faults": ["reset,after=3"]}; DELETE takes them back'


class FaultPages:
    """The rules of the run."""

    def __init__(self, injecting: FaultMiddleware) -> None:
        self._fault_middleware = injecting

    async def __call__(self, page_request: PageRequest, /) -> Answered | None:
        """The page, where it is this one."""
        if page_request.path != _PAGE:
            return None
        match page_request.method:
            case _ if page_request.method in READS:
                return 200, self._rules_document()
            case "DELETE":
                self._fault_middleware.set_rules(())
                return 200, self._rules_document()
            case "PUT":
                return await self._set_rules(page_request.body)
            case _:
                return None

    async def _set_rules(self, body: bytes) -> Answered:
        document = lenient_json.parse_object(body)
        value = document.get("faults")
        if not isinstance(value, list) or document.keys() != {"faults"}:
            return 400, {"error": _HOW}
        if len(value) > _MOST:
            return 400, {"error": f"there may be {_MOST} faults, and these are {len(value)}"}
        try:
            rules = await asyncio.to_thread(parse_rules, value)
        except UsageError as error:
            return 400, {"error": str(error)}
        self._fault_middleware.set_rules(rules)
        return 200, self._rules_document()

    def _rules_document(self) -> dict[str, object]:
        injector = self._fault_middleware.engine
        return {
            "given": [startup_rule.to_document() for startup_rule in injector.startup_rules],
            "faults": [runtime_rule.to_document() for runtime_rule in injector.runtime_rules],
            "scripted": [scenario_rule.to_document() for scenario_rule in injector.scenario_rules],
        }
