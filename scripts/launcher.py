"""What the launchers in this folder do first; any Python 3 can read it, as it can read them."""

import platform
import sys


def require_python(launcher: str) -> None:
    """Exit with a message and code 2 where this Python is too old for the rest of the program."""
    if sys.version_info < (3, 11):  # noqa: UP036 # users may run an older Python
        sys.stderr.write(launcher + " needs Python 3.11 or newer, not ")
        sys.stderr.write(platform.python_version() + "; run: python3.11 " + launcher + "\n")
        sys.exit(2)
