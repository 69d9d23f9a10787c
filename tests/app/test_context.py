import pytest

from app.context import KeptOpen, kept_samples
from db.errors import StoreUnreachable
from db.store import SampleStore
from tests.stores import report


@pytest.fixture
def samples(tmp_path):
    kept = kept_samples(tmp_path / "samples.db")
    yield kept
    kept.close()


def test_it_is_opened_once(samples):
    assert samples() is samples()


def test_a_failed_opening_is_tried_again(tmp_path, samples):
    path = tmp_path / "samples.db"
    path.write_bytes(b"this is no database " * 100)
    with pytest.raises(StoreUnreachable):
        samples()
    path.unlink()
    assert samples().sources() == []


def test_a_replaced_file_is_noticed(tmp_path, samples):
    assert samples().sources() == []
    restored = SampleStore.open(tmp_path / "restored.db")
    restored.write([], [report("node", "a", 1)])
    restored.close()
    for name in ("samples.db-wal", "samples.db-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    (tmp_path / "restored.db").replace(tmp_path / "samples.db")
    assert [one.instance for one in samples().sources()] == ["a"]


def test_the_former_one_is_closed(tmp_path):
    closed = []
    path = tmp_path / "file"
    path.write_text("1")
    kept = KeptOpen(path, lambda one: one.read_text(), closed.append)
    assert kept() == "1"
    (tmp_path / "other").write_text("2")
    (tmp_path / "other").replace(path)
    assert kept() == "2"
    kept.close()
    kept.close()
    assert closed == ["1", "2"]


def test_a_server_has_no_file_to_watch_and_is_opened_once():
    opened = []
    kept = KeptOpen(
        "postgresql+psycopg://ada@db/strata", lambda url: opened.append(url) or url, opened.append
    )
    assert kept() == kept()
    assert len(opened) == 1
    kept.close()
    assert len(opened) == 2
