"""What a chat sends: prompts, files, stdin and scripts, and the user's tools."""

from __future__ import annotations

import base64
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

from msgspec import Meta, Struct

from llm_chat import Media, Part, Text, Tool
from llm_proxy.errors import UsageError
from llm_proxy.shell.user_code import import_object

_MAX_FILE_BYTES: Final = 64 * 1024 * 1024
_STDIN: Final = Path("-")
_STRUCTURED_SUFFIXES: Final = (".yaml", ".yml", ".json")
_MEDIA_TYPES: Final = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
    ".pdf": "application/pdf",
    ".wav": "audio/wav",
    ".mp3": "audio/mpeg",
    ".mp4": "video/mp4",
}
"""Media types by suffix; any other file is text."""


class ChatScript(Struct, frozen=True, forbid_unknown_fields=True):
    """A script: the messages of the user."""

    messages: Annotated[tuple[Annotated[str, Meta(min_length=1)], ...], Meta(min_length=1)]


def read_script(path: Path) -> Sequence[str]:
    """The messages of a script: a list in YAML or JSON, else one on each line.

    Raises `UsageError` for an invalid script, and one without messages.
    """
    from llm_proxy.scenario.documents import loading  # noqa: PLC0415 # only for a script

    data = _read_file(path)
    if path.suffix.lower() in _STRUCTURED_SUFFIXES:
        script = loading.parse_struct(ChatScript, str(path), data, list_field="messages")
        return script.messages
    messages = [line.strip() for line in _decode_text(path, data).splitlines() if line.strip()]
    if not messages:
        raise UsageError(f"{path}: no messages; write each message on a line of its own")
    return messages


def read_prompt(prompt: str | None, files: Sequence[Path]) -> tuple[Part, ...]:
    """The parts of the user's message: the prompt with the texts of files, and other files.

    Without both, the prompt is the text on stdin.  Raises `UsageError` for an empty prompt, and for
    a file that cannot be read or is of an unknown type.
    """
    if prompt is None and not files:
        if sys.stdin.isatty():
            raise UsageError("missing PROMPT; a conversation needs a terminal as stdout")
        prompt = _decode_text(_STDIN, _read_file(_STDIN))
        if not prompt.strip():
            raise UsageError("the prompt on stdin is empty; pass PROMPT or text on stdin")
    elif prompt is not None and not prompt.strip():
        raise UsageError("PROMPT is empty; write the question after the options")
    texts = [prompt] if prompt else []
    media: list[Part] = []
    for path in files:
        data = _read_file(path)
        if media_type := _MEDIA_TYPES.get(path.suffix.lower()):
            media.append(Media(media_type, base64=base64.b64encode(data).decode()))
        else:
            label = "stdin" if path == _STDIN else path.name
            texts.append(f"{label}:\n{_decode_text(path, data)}")
    return (*((Text("\n\n".join(texts)),) if texts else ()), *media)


def import_tools(object_paths: Sequence[str]) -> list[Tool | Callable[..., Any]]:
    """The tools that `MODULE:NAME` name: functions, `Tool`s, and lists of them.

    Raises `UsageError`.
    """
    tools: list[Tool | Callable[..., Any]] = []
    for object_path in object_paths:
        imported = import_object("--tools", object_path, "tools:get_weather")
        for tool in imported if isinstance(imported, list | tuple) else [imported]:
            if not isinstance(tool, Tool) and not callable(tool):
                raise UsageError(
                    f"--tools {object_path}: expected a function, a Tool, or a list of them, got "
                    f"{type(tool).__name__}"
                )
            tools.append(tool)
    return tools


def _read_file(path: Path) -> bytes:
    try:
        if path == _STDIN:
            data = sys.stdin.buffer.read(_MAX_FILE_BYTES + 1)
        else:
            with path.open("rb") as file:
                data = file.read(_MAX_FILE_BYTES + 1)
    except OSError as error:
        raise UsageError(f"cannot read {_label(path)}: {error.strerror}") from None
    if len(data) > _MAX_FILE_BYTES:
        raise UsageError(f"{_label(path)} is larger than {_MAX_FILE_BYTES} bytes")
    return data


def _decode_text(path: Path, data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{_label(path)}: byte {error.start} is not valid UTF-8; files other than "
            f"{', '.join(_MEDIA_TYPES)} must be text"
        ) from None


def _label(path: Path) -> str:
    return "stdin" if path == _STDIN else str(path)
