"""Where in texts a value stands: what rules put names for, and what answers are renamed by."""

from __future__ import annotations

import re
from typing import Final

_ID_MEMBER: Final = re.compile(r"(?:.*_)?ids?|.*[a-z]I[dD]")
_SHORTEST: Final = 8
"""Characters of what stands in a text by no accident."""
_DIGIT: Final = re.compile("[0-9]")
_SLUG: Final = re.compile(r"-\w+-")
"""A path that is spelled as the name of a file begins so: `-home-ann-project`."""
_PATH: Final = re.compile(r"[/\\]")

NO_PATH_BEFORE: Final = r"(?<![\w.~<-])(?<![0-9]>)"
"""What follows is a path from the root: neither the rest of one, also behind a name of ours, nor
the end of an element, such as `</root>`."""


def is_id(member: str) -> bool:
    """Whether a member of an object is called as ids are: `id`, `call_id`, `toolUseId`."""
    return _ID_MEMBER.fullmatch(member) is not None


def is_path(value: str) -> bool:
    """Whether a value is a path of folders."""
    return _PATH.search(value) is not None


def is_long(value: str) -> bool:
    """Whether a value that is found within a text stands there by no accident.

    Without a digit it may be a word, such as the name of a tool.
    """
    is_sure = _DIGIT.search(value) is not None or _SLUG.match(value) is not None
    return is_path(value) or (len(value) >= _SHORTEST and is_sure)


def pattern(value: str) -> str:
    """What finds a value in a text, where it is no part of a longer word."""
    before = r"(?<!\w)" if re.match(r"\w", value) else ""
    after = r"(?!\w)" if re.search(r"\w\Z", value) else ""
    if is_path(value):  # `/srv/app` is no part of `/x/srv/app`, `/srv/app-2` or `/srv/app.old`
        before = before or NO_PATH_BEFORE
        after = r"(?![\w-]|\.\w)"
    elif _SLUG.match(value):
        before = r"(?<![\w-])"
    return before + re.escape(value) + after
