"""Exposition text made in bulk: a page's names and labels are written once, its numbers at every scrape.

A template is bytes with one conversion (%d, %.6f, %r) for each sample, so that a page of hundreds of lines
costs one formatting.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field


@dataclass(slots=True)
class Template:
    """Grows line by line; `page` fills it. Label values have to be plain text without quotes or newlines."""

    _lines: list[str] = field(default_factory=list)
    _text: str = ""
    samples: int = 0

    def family(self, name: str, kind: str, text: str) -> None:
        self._lines += [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]

    def sample(self, name: str, labels: str, form: str) -> None:
        """labels: as between the braces; form: a conversion, or a fixed value, which takes none."""
        where = f"{name}{{{labels}}}" if labels else name
        self._lines.append(f"{where.replace('%', '%%')} {form}")
        self.samples += form.startswith("%")

    def page(self, values: Sequence[float]) -> bytes:
        """One value for each sample with a conversion, in order."""
        if not self._text:
            # In a comment a percent sign is only text.
            lines = [line.replace("%", "%%") if line.startswith("#") else line for line in self._lines]
            self._text = "\n".join(lines) + "\n"
            self._lines = []
        return (self._text % tuple(values)).encode()


def pairs(items: Iterable[tuple[str, str]]) -> str:
    """Labels as they stand between the braces."""
    return ",".join(f'{name}="{value}"' for name, value in items)
