"""What of a fixture no scenario says, or says otherwise."""

from __future__ import annotations

from typing import Final

from llm_proxy.importing.source import Loss

SEQUENCE: Final = Loss(
    "sequence",
    "sequenceIndex counts requests, and a turn the answers in a conversation: whoever asks the "
    "same in a new conversation gets the first answer again",
)
TURN: Final = Loss(
    "nearest turn",
    "its turnIndex becomes that turn alone: aimock answers other turns with the nearest, too",
)
DATED: Final = Loss(
    "dated models",
    "its model is that name alone: aimock takes it with a date behind it, too; write a pattern "
    "such as gpt-5-20* for those",
)
CONTEXT: Final = Loss(
    "context",
    "its context becomes the session: send x-llm-proxy-session in place of X-AIMock-Context",
)
ENVELOPE: Final = Loss(
    "envelope", "ids, models, roles and fingerprints of answers are made by each dialect"
)
COSTS: Final = Loss("costs", "of its usage tokens are told, and nothing else")
SEARCHES: Final = Loss("searches", "its webSearches are left out: a scenario has no word for them")
FAILURE: Final = Loss(
    "error without end",
    "its error comes a million times, in the words of the dialect that is asked, and an empty "
    "answer after that",
)
RECORDED: Final = Loss("gaps", "its recorded gaps become their mean")
WHOLE: Final = Loss("times of streams", "its times hold for answers that do not stream, too")
COUNTED: Final = Loss(
    "chunks", "its chunks are counted as the events of a stream here, which each dialect has others"
)
OTHERS: Final = Loss("fields", "it has fields that are unknown here: they are left out")
