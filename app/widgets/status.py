"""States in words and shapes, so that colour is never the only sign; and how untrusted text is shown.

Labels and errors come from scraped pages. They reach the page only as `st.text`, a table cell, or a chart
label escaped by `app.charts`; never inside Markdown.
"""

from dataclasses import dataclass

from app.analysis.freshness import Freshness
from app.summaries.targets import SourceStatus
from db.processes import Process

# A label may be a megabyte; nobody reads more than this in one line.
MAX_TEXT = 200


@dataclass(frozen=True, slots=True)
class Sign:
    """shape: one glyph that differs for every state. colour: of Streamlit's palette."""

    shape: str
    word: str
    colour: str

    @property
    def plain(self) -> str:
        return f"{self.shape} {self.word}"

    @property
    def markdown(self) -> str:
        return f":{self.colour}[{self.shape}] {self.word}"


SOURCE_SIGNS: dict[SourceStatus, Sign] = {
    "up": Sign("●", "Up", "green"),
    "stale": Sign("▲", "Stale", "orange"),
    "down": Sign("■", "Down", "red"),
    "waiting": Sign("○", "Waiting", "gray"),
    "unsupported": Sign("◇", "Unsupported", "gray"),
    "suppressed": Sign("◆", "Covered", "gray"),
}
LIVE = Sign("●", "Live", "green")
STALE = SOURCE_SIGNS["stale"]
PAUSED = Sign("◫", "Paused", "blue")
NO_DATA = Sign("○", "No data", "gray")
FRESHNESS_SIGNS: dict[Freshness, Sign] = {"live": LIVE, "stale": STALE, "never": NO_DATA}

RUNNING = Sign("●", "Running", "green")
SILENT = Sign("▲", "Not answering", "orange")
RESTARTING = Sign("■", "Restarting", "red")
STOPPED = Sign("■", "Stopped", "red")


def process_sign(process: Process, now_ms: int) -> Sign:
    if process.state == "running":
        return SILENT if process.silent(now_ms) else RUNNING
    return RESTARTING if process.state == "restarting" else STOPPED


def short(text: str, limit: int = MAX_TEXT) -> str:
    """One line of at most `limit` characters; control characters become spaces."""
    line = "".join(character if character.isprintable() else " " for character in text[: limit * 2])
    line = " ".join(line.split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"
