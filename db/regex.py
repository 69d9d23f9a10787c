"""Regular expressions as Prometheus has them: RE2 (linear time on hostile patterns), anchored at both ends.

The one importer of google-re2.
"""

from functools import lru_cache
from typing import Any

import re2

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.dot_nl = True  # Prometheus compiles "^(?s:...)$"


class RegexError(ValueError):
    """The pattern is not RE2; the message says why."""


@lru_cache(maxsize=4096)
def compile_anchored(pattern: str) -> Any:
    """Compile a pattern that has to match the whole text; `.fullmatch`, `.groupindex` as in `re`.

    Raises RegexError.
    """
    try:
        return re2.compile(f"^(?:{pattern})$", _OPTIONS)
    except re2.error as error:
        text = error.args[0] if error.args else error
        reason = text.decode() if isinstance(text, bytes) else str(text)
        raise RegexError(f"not a valid RE2 expression {pattern!r}: {reason}") from error


def fullmatch(pattern: str, text: str) -> bool:
    """Does the whole text match? Raises RegexError."""
    return compile_anchored(pattern).fullmatch(text) is not None
