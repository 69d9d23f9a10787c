"""Pages run in process, over a real store in a temporary folder and a clock that stands still."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pandas as pd
from streamlit.testing.v1 import AppTest

from app.context import PageContext, ProcessBook, install, kept_samples
from db.catalog.load import load_catalog
from db.held_samples import read_held
from db.store import SampleStore

NOW = 1_795_000_000_000
MAIN = Path(__file__).parents[2] / "app" / "main.py"


class Site:
    """A data folder with its store, and the pages over it."""

    def __init__(self, folder: Path) -> None:
        self.store = SampleStore.open(folder / "samples.db")
        self._samples = kept_samples(folder / "samples.db")
        self.book = ProcessBook(folder / "state.db")
        self.now_ms = NOW
        self.folder = folder
        self.signal_files: list[Path] = []
        install(
            PageContext(
                self._samples,
                self.book.read,
                lambda: self.now_ms,
                held=lambda: read_held(folder, self.now_ms),
                catalog=lambda: load_catalog(self.signal_files),
            )
        )

    def page(self, name: str = "overview", **query: str) -> AppTest:
        test = AppTest.from_file(MAIN, default_timeout=30)
        for key, value in query.items():
            test.query_params[key] = value
        test.run()
        if name != "overview":
            test.switch_page(f"views/{name}.py").run()
        return test

    def close(self) -> None:
        self._samples.close()
        self.book.close()
        self.store.close()


@contextmanager
def site(folder: Path) -> Iterator[Site]:
    opened = Site(folder)
    try:
        yield opened
    finally:
        opened.close()


def words(test: AppTest) -> str:
    """Everything that is text on the page."""
    kinds = ("markdown", "text", "caption")
    return "\n".join(str(element.value) for kind in kinds for element in test.get(kind))


def markup(test: AppTest) -> str:
    """Everything on the page that is read as Markdown, and so may never hold anybody else's text."""
    parts = [str(element.value) for kind in ("markdown", "caption") for element in test.get(kind)]
    for metric in test.metric:
        parts += [metric.label, metric.value, metric.help, metric.proto.delta_description]
    return "\n".join(parts)


def frame(test: AppTest, column: str) -> pd.DataFrame:
    """The first table that has the column."""
    return next(table.value for table in test.dataframe if column in table.value.columns)


def tiles(test: AppTest) -> dict[str, list[str]]:
    """Label -> the values of the tiles with it, in page order."""
    found: dict[str, list[str]] = {}
    for metric in test.metric:
        found.setdefault(metric.label, []).append(metric.value)
    return found
