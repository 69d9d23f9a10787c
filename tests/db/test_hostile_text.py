"""Text that a target or a file system may hold: it costs its own write at most, never the store."""

from pathlib import Path

import numpy as np
import pytest

from db.errors import Unstorable
from db.labels import labels_from
from db.records import DenseAppend, Matcher, SourceReport
from db.store import SampleStore


@pytest.fixture
def store(tmp_path: Path):
    opened = SampleStore.open(tmp_path / "samples.db")
    yield opened
    opened.close()


@pytest.mark.parametrize("text", ["x\0y", "\0", "x", "'; --", "\u2028", "\uffff", "é", "e\u0301"])
def test_a_label_value_comes_back_as_it_was_in_every_series_that_has_it(store: SampleStore, text) -> None:
    for number in "12":
        one = labels_from({"text": text, "number": number, "\0name": text}, "m")
        store.write([DenseAppend(number, [one], 1, np.array([1.0]))])
    found = store.select([Matcher("text", "=", text)], 0, 9)
    assert [dict(series.labels)["text"] for series in found] == [text, text]
    assert store.label_values("text") == [text]


@pytest.mark.parametrize("report", [False, True])
def test_text_that_is_not_utf_8_is_told_apart_from_a_full_disk(store: SampleStore, report: bool) -> None:
    append = DenseAppend("t", [labels_from({"a": "\udce4"}, "m")], 1, np.array([1.0]))
    reports = [SourceReport("scrape", "j", "\udce4", "", "up", 1.0)]
    with pytest.raises(Unstorable):
        store.write([] if report else [append], reports if report else [])
    store.write([DenseAppend("t", [labels_from({"a": "b"}, "m")], 1, np.array([1.0]))])
    assert len(store.select([], 0, 9)) == 1


@pytest.mark.parametrize("folder", ["what?", "a%20b", "100%", "a#b", "ü &"])
def test_any_folder_name_will_do(tmp_path: Path, folder: str) -> None:
    SampleStore.open(tmp_path / folder / "samples.db").close()
    assert [path.parent.name for path in tmp_path.rglob("samples.db")] == [folder]
