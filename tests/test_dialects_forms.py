from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from case_tables import each_row
from llm_proxy.dialects.openai.other_endpoints import form_field_value
from llm_proxy.exchange import Request

FORM = (
    b'--xyz\r\nContent-Disposition: form-data; name="file"; filename="model"\r\n'
    b"Content-Type: audio/wav\r\n\r\nRIFF\x00\xff\r\n"
    b'--xyz\r\nContent-Disposition: form-data; name="model"\r\n\r\nwhisper-1\r\n'
    b"--xyz\r\ncontent-disposition: form-data; name=stream\r\n\r\ntrue\r\n"
    b'--xyz\r\nContent-Disposition: form-data; name="model"\r\n\r\nother\r\n--xyz--\r\n'
)


def form_request(body: bytes, content_type: str = "multipart/form-data; boundary=xyz") -> Request:
    return Request("POST", "/", "", (("content-type", content_type),), body)


@each_row(
    ("name", "value"),
    [("model", "whisper-1"), ("stream", "true"), ("nothing", ""), ("", "")],
)
def test_a_field_is_found_by_its_name(name: str, value: str) -> None:
    assert form_field_value(form_request(FORM), name) == value


@each_row(
    "content_type",
    [
        'multipart/form-data; boundary="xyz"',
        "Multipart/Form-Data;Boundary=xyz",
        "multipart/form-data; charset=utf-8; boundary=xyz",
    ],
)
def test_a_boundary_may_be_written_in_several_ways(content_type: str) -> None:
    assert form_field_value(form_request(FORM, content_type), "model") == "whisper-1"


@each_row(
    "content_type",
    ["", "application/json", "multipart/form-data", "multipart/form-data; boundary=abc"],
)
def test_other_content_types_have_no_fields(content_type: str) -> None:
    assert form_field_value(form_request(FORM, content_type), "model") == ""


def test_a_file_is_not_read_for_a_field() -> None:
    long = FORM.replace(b"whisper-1", b"w" * 5000)
    assert form_field_value(form_request(long), "model") == "other"


@given(rest=st.binary(max_size=100), cut=st.integers(0, 100))
def test_a_field_of_any_bytes_occurs_in_the_body(rest: bytes, cut: int) -> None:
    opening = b'--xyz\r\nContent-Disposition: form-data; name="a"\r\n\r\n'
    body = opening[:cut] + rest
    assert form_field_value(form_request(body), "a") in body.decode("utf-8", "replace")


@given(
    value=st.text(st.characters(codec="utf-8"), max_size=50).filter(
        lambda text: "--xyz" not in text
    )
)
def test_a_value_is_returned_as_it_was_sent(value: str) -> None:
    form = b'--xyz\r\nContent-Disposition: form-data; name="a"\r\n\r\n%b\r\n--xyz--\r\n'
    assert form_field_value(form_request(form % value.encode()), "a") == value
