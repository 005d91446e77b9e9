"""Preset for Pydantic AI: it generates missing call ids, and apps send the date."""

from typing import Final

from llm_proxy.matching.normalisers.call_ids import CALL_IDS
from llm_proxy.matching.normalisers.paths import PATHS
from llm_proxy.matching.normalisers.uuids import UUIDS
from llm_proxy.matching.presets.announced_values import current_date_rule
from llm_proxy.matching.presets.preset import Preset

PYDANTIC_AI: Final = Preset(
    name="pydantic-ai",
    version=2,
    client="Pydantic AI",
    rules=(current_date_rule(), PATHS.make_rule(), CALL_IDS.make_rule(), UUIDS.make_rule()),
)
