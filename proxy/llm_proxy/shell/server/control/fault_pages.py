"""Pages by which faults are looked at, and set while the proxy runs."""

from __future__ import annotations

import asyncio
from typing import Final

from llm_proxy.dialects import lenient_json
from llm_proxy.errors import UsageError
from llm_proxy.faults.grammar import rules_of
from llm_proxy.shell.server.control.page import READS, Answered, Asked
from llm_proxy.shell.server.fault_middleware import Injecting

_PAGE: Final = "/_proxy/faults"
_MOST: Final = 1000
"""Rules at once."""
_HOW: Final = 'name the faults: {"faults": ["reset,after=3"]}; DELETE takes them back'


class Faults:
    """The rules of the run."""

    def __init__(self, injecting: Injecting) -> None:
        self._injecting = injecting

    async def __call__(self, asked: Asked, /) -> Answered | None:
        """The page, where it is this one."""
        if asked.path != _PAGE:
            return None
        match asked.method:
            case _ if asked.method in READS:
                return 200, self._told()
            case "DELETE":
                self._injecting.put(())
                return 200, self._told()
            case "PUT":
                return await self._put(asked.body)
            case _:
                return None

    async def _put(self, body: bytes) -> Answered:
        """Have these rules hold, in place of those that were set so before."""
        document = lenient_json.document(body)
        given = document.get("faults")
        if not isinstance(given, list) or document.keys() != {"faults"}:
            return 400, {"error": _HOW}
        if len(given) > _MOST:
            return 400, {"error": f"there may be {_MOST} faults, and these are {len(given)}"}
        try:
            rules = await asyncio.to_thread(rules_of, given)
        except UsageError as error:
            return 400, {"error": str(error)}
        self._injecting.put(rules)
        return 200, self._told()

    def _told(self) -> dict[str, object]:
        injector = self._injecting.injector
        return {
            "given": [it.told() for it in injector.given],
            "faults": [it.told() for it in injector.added],
            "scripted": [it.told() for it in injector.scripted],
        }
