"""Two recording proxies in one folder, at the same time: neither destroys what the other keeps."""

from __future__ import annotations

from pathlib import Path

import pytest

from llm_proxy.outcomes import outcome
from proxying import cassettes, proxy
from raw import ask
from shelf import bodies, chat, event, put, says
from stub import chunked, upstream
from waiting import until

DONE = b"data: [DONE]\n\n"


def _says(text: str) -> list[bytes]:
    return [event(text), DONE]


async def test_the_takes_of_both_are_kept_and_it_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    put(tmp_path, chat(), says("old"), says("old again"))
    async with (
        upstream(chunked(_says("one"))) as first,
        upstream(chunked(_says("two")), chunked(_says("three"))) as second,
    ):
        async with proxy("record", tmp_path, first.url) as one:
            async with proxy("record", tmp_path, second.url) as two:
                await ask(one.url, chat())
                await until(lambda: bool(one.journal.recorded))
                await ask(two.url, chat())
                await ask(two.url, chat())

    kept = sorted(it.body for it in cassettes(tmp_path))
    assert kept == sorted(b"".join(_says(text)) for text in ("one", "two", "three"))
    assert all(outcome(it).complete for it in cassettes(tmp_path))
    assert [it.message for it in caplog.records].count(
        f"another llm-proxy records into {tmp_path / 'cassettes'} at the same time: where both "
        "record the same request, the takes of both are kept; give each its own session or "
        "--cassettes"
    ) == 1


async def test_one_after_the_other_replaces_as_ever(tmp_path: Path) -> None:
    [old] = put(tmp_path, chat(), says("old"))
    for text in ("one", "two"):
        async with upstream(chunked(_says(text))) as live:
            async with proxy("record", tmp_path, live.url) as it:
                await ask(it.url, chat())
    [kept] = cassettes(tmp_path)
    assert kept.body == bodies([says("two")])[0]
    assert kept.file == str(old)
