"""The losses of converting fixtures."""

from __future__ import annotations

from typing import Final

from llm_proxy.importing.source import ImportLoss

SEQUENCE_INDEX: Final = ImportLoss(
    "sequence",
    "sequenceIndex counts requests, and a turn the answers in a conversation: whoever asks the "
    "same in a new conversation gets the first answer again",
)
TURN_INDEX: Final = ImportLoss(
    "nearest turn",
    "its turnIndex becomes that turn alone: aimock answers other turns with the nearest, too",
)
DATED_MODELS: Final = ImportLoss(
    "dated models",
    "its model is that name alone: aimock takes it with a date behind it, too; write a pattern "
    "such as gpt-5-20* for those",
)
CONTEXT: Final = ImportLoss(
    "context",
    "its context becomes the session: send x-llm-proxy-session in place of X-AIMock-Context",
)
RESPONSE_ENVELOPE: Final = ImportLoss(
    "envelope", "ids, models, roles and fingerprints of answers are made by each dialect"
)
COSTS: Final = ImportLoss("costs", "of its usage tokens are told, and nothing else")
WEB_SEARCHES: Final = ImportLoss(
    "searches", "its webSearches are left out: a scenario has no word for them"
)
ENDLESS_ERROR: Final = ImportLoss(
    "error without end",
    "its error comes a million times, in the words of the dialect that is asked, and an empty "
    "answer after that",
)
RECORDED_GAPS: Final = ImportLoss("gaps", "its recorded gaps become their mean")
NONSTREAM_TIMES: Final = ImportLoss(
    "times of streams", "its times hold for answers that do not stream, too"
)
CHUNK_COUNTS: Final = ImportLoss(
    "chunks", "its chunks are counted as the events of a stream here, which each dialect has others"
)
UNKNOWN_FIELDS: Final = ImportLoss(
    "fields", "it has fields that are unknown here: they are left out"
)
