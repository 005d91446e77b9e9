from __future__ import annotations

import msgspec
import pytest

from llm_proxy.cassette.schema import EndLine, HeadLine, MetaLine, RequestLine, dump, stamp
from llm_proxy.exchange import Ending
from tapes import HEAD, META, REQUEST, cassette


@pytest.mark.parametrize(
    ("at", "written"), [(0.0, 0.0), (12.344999, 12.34), (12.346, 12.35), (3_600_000.004, 3.6e6)]
)
def test_times_are_written_to_the_hundredth_of_a_ms(at: float, written: float) -> None:
    assert stamp(at) == written


def test_each_line_gives_back_its_value() -> None:
    end = cassette(b"data: 1\n\n", ending=Ending.RST).end
    assert MetaLine.of(META).value() == META
    assert RequestLine.of(REQUEST).value() == REQUEST
    assert HeadLine.of(HEAD, 1.0, "sse", "").value() == HEAD
    assert EndLine.of(end).value() == end


def test_what_is_as_usual_is_not_written() -> None:
    assert dump(HeadLine.of(HEAD, 1.0, "sse", "")) == (
        b'{"response":{"at":1.0,"status":200,"reason":"OK","framing":"chunked","codec":"sse",'
        b'"headers":[["Content-Type","text/event-stream"]]}}\n'
    )


@pytest.mark.parametrize(
    "kind", [MetaLine, RequestLine, HeadLine, EndLine], ids=lambda kind: kind.__name__
)
@pytest.mark.parametrize("value", [[], None, 1, "x", {}, {"other": 1}], ids=str)
def test_what_is_no_such_line_is_refused(kind: type[msgspec.Struct], value: object) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(value, kind)
