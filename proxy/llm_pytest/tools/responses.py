"""The HTTP responses of one test, by their ids: what `http_*` shows, and `assert_*` checks.

What a model gets is the same in every run of an unchanged service: no durations, no dates, no
headers of the connection, and of cookies only the names, because their values are often random.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Final

from llm_proxy.matching.tool_results import stable_text
from llm_proxy.redaction import has_secret_shape
from llm_proxy.turns import Json
from llm_pytest.plugin_base import ToolError
from llm_pytest.secrets import Secrets
from llm_pytest.tools.json_values import cut_text, parse_json

MAX_SHOWN_BODY_CHARS: Final = 20_000
"""The most characters of a body that a model gets; assertions use all of it."""
DOCUMENT_PATHS: Final = ("$.status", "$.url", "$.headers", "$.json", "$.text")
"""The fields of `HttpResponse.document`."""
_SHOWN_HEADERS: Final = (
    "allow", "content-language", "content-type", "location", "retry-after", "www-authenticate",
)  # fmt: skip
_JSON_TYPE: Final = re.compile(r"(?:application|text)/(?:[^/]+\+)?json")
_TEXT_TYPE: Final = re.compile(
    r"text/.*|application/(?:[^/]+\+)?(?:json|xml)|application/(?:javascript|x-www-form-urlencoded)"
)
_CHARSETS: Final = frozenset(
    ("ascii", "iso-8859-1", "latin-1", "us-ascii", "utf-16", "utf-16be", "utf-16le", "windows-1252")
)
"""The character sets besides UTF-8.  Some other codecs of Python are slow or no character sets."""


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A complete response."""

    id: str
    status: int
    url: str
    """The URL of the last request, after redirects."""
    headers: tuple[tuple[str, str], ...]
    """In their order; the names are in lower case."""
    body: bytes
    """Without its content coding."""
    elapsed_ms: float
    """From sending the request to the end of the body, with all redirects."""
    is_redirected: bool = False

    def header(self, name: str) -> str | None:
        """The value of a header; those of repeated headers are joined with `, `."""
        values = [value for key, value in self.headers if key == name.lower()]
        return ", ".join(values) if values else None

    def json(self) -> tuple[Json] | None:
        """The body as JSON, in a 1-tuple, if it is valid and no other content type is declared."""
        media_type = self._media_type
        if media_type and not _JSON_TYPE.fullmatch(media_type):
            return None
        return parse_json(self.body.removeprefix(b"\xef\xbb\xbf"))

    def text(self) -> str | None:
        """The body as text; None if it is binary."""
        charset = self._content_type_parameter("charset")
        encoding = charset if charset in _CHARSETS else "utf-8-sig"
        is_text = _TEXT_TYPE.fullmatch(self._media_type) is not None
        try:
            text = self.body.decode(encoding, "replace" if is_text else "strict")
        except UnicodeDecodeError:
            return None
        return text if is_text or "\0" not in text else None

    def document(self) -> dict[str, Json]:
        """What paths of assertions start at; `json` and `text` only if the body is such."""
        document: dict[str, Json] = {
            "status": self.status,
            "url": self.url,
            "headers": {name: self.header(name) for name, _ in self.headers},
        }
        if (parsed := self.json()) is not None:
            [document["json"]] = parsed
        if (text := self.text()) is not None:
            document["text"] = text
        return document

    def summary(self, secrets: Secrets) -> dict[str, Json]:
        """What the model gets, before secrets are hidden."""
        secrets.hide(self._values_that_are_not_shown())
        summary: dict[str, Json] = {"response": self.id, "status": self.status}
        if self.is_redirected:
            summary["url"] = self.url
        summary["headers"] = {
            name: value for name in _SHOWN_HEADERS if (value := self.header(name)) is not None
        }
        cookies = [value.partition("=")[0] for key, value in self.headers if key == "set-cookie"]
        if cookies:
            summary["cookies_set"] = list[Json](cookies)
        return summary | self._shown_body(secrets)

    def _values_that_are_not_shown(self) -> dict[str, Json]:
        """What assertions may show later: headers, cookies, and a body that is cut."""
        values: dict[str, Json] = {name: self.header(name) for name, _ in self.headers}
        cookies = (
            value.partition(";")[0].partition("=")[2].strip()
            for name, value in self.headers
            if name == "set-cookie"
        )
        # A cookie such as `theme=dark` is no secret.
        values["set-cookie"] = [each for each in cookies if has_secret_shape(each.encode())]
        text = self.text()
        if text is not None and len(text) > MAX_SHOWN_BODY_CHARS:
            parsed = self.json()
            values["body"] = text if parsed is None else parsed[0]
        return values

    def _shown_body(self, secrets: Secrets) -> dict[str, Json]:
        parsed, text = self.json(), self.text()
        if text is None:
            return {"bytes": len(self.body), "sha256": hashlib.sha256(self.body).hexdigest()}
        if parsed is not None and len(text) <= MAX_SHOWN_BODY_CHARS:
            return {"json": parsed[0]}
        shown: dict[str, Json] = {"text": cut_text(text, MAX_SHOWN_BODY_CHARS)}
        if len(text) > MAX_SHOWN_BODY_CHARS:  # so that a replay notices a change behind the cut
            stable = stable_text(secrets.hide_known(text)).encode("utf-8", "replace")
            shown["sha256"] = hashlib.sha256(stable).hexdigest()
        if parsed is None and self.body and _JSON_TYPE.fullmatch(self._media_type):
            shown["problem"] = "the body is not valid JSON"
        return shown

    @property
    def _media_type(self) -> str:
        return (self.header("content-type") or "").partition(";")[0].strip().lower()

    def _content_type_parameter(self, name: str) -> str:
        for parameter in (self.header("content-type") or "").split(";")[1:]:
            key, _, value = parameter.partition("=")
            if key.strip().lower() == name:
                return value.strip().strip('"').lower()
        return ""


class ResponseLog:
    """The responses of one test.

    Each request takes an id, so that no assertion passes for an older response because the latest
    request has failed.
    """

    def __init__(self) -> None:
        self._results: dict[str, HttpResponse | str] = {}
        """A response, or why there is none."""

    def begin(self) -> str:
        """The id of a new request."""
        response_id = f"r{len(self._results) + 1}"
        self._results[response_id] = "the request has not ended"
        return response_id

    def end(self, response_id: str, result: HttpResponse | str) -> None:
        """Add the response of a request, or the reason why there is none."""
        self._results[response_id] = result

    def find(self, response_id: str = "") -> HttpResponse:
        """The response with this id, by default the latest.  Raises `ToolError`."""
        if not self._results:
            raise ToolError("there is no response yet; send a request with an http_* tool")
        response_id = response_id or f"r{len(self._results)}"
        match self._results.get(response_id):
            case HttpResponse() as response:
                return response
            case None:
                last = f"r{len(self._results)}"
                raise ToolError(f"unknown response {response_id!r}; the latest is {last}")
            case reason:
                raise ToolError(f"the request {response_id} has no response: {reason}")
