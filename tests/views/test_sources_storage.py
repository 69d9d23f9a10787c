"""What the Sources page says of a store that refuses samples and of a state that cannot be read."""

from db.held_samples import STALE_MS, Held, HeldFile
from tests.stores import Box
from tests.views.pages import NOW, markup, words

REASON = "/data/samples.db: the disk is full; free space on it <b>**x**</b>"


def test_samples_that_wait_in_memory_are_told_with_since_when_how_much_and_the_bound(site, tmp_path):
    Box(site.store, gpus=0).fill(NOW - 10_000, NOW)
    HeldFile(tmp_path).tell(Held(NOW - 240_000, NOW - 1_000, 3 << 20, 256 << 20, 0, REASON))
    page = site.page("sources")
    assert not page.exception
    text = words(page)
    assert ":red[■] Not stored · since 2026-11-18 11:02:40 (4 min) samples are kept in memory alone" in text
    assert "3.00 MiB of at most 256 MiB" in text
    assert "dropped" not in text
    assert REASON in text
    assert REASON not in markup(page)


def test_what_had_to_be_dropped_is_counted(site, tmp_path):
    HeldFile(tmp_path).tell(Held(NOW - 240_000, NOW - 1_000, 0, 256 << 20, 1_234, REASON))
    assert "1,234 scrapes had to be dropped already." in words(site.page("sources"))


def test_nothing_is_said_when_nothing_waits(site, tmp_path):
    held = HeldFile(tmp_path)
    held.tell(None)
    assert "Not stored" not in words(site.page("sources"))
    held.tell(Held(0, NOW - STALE_MS - 1, 1, 2, 0, REASON))  # of a process that ended
    assert "Not stored" not in words(site.page("sources"))


def test_a_state_that_cannot_be_read_hides_the_processes_alone(site, tmp_path):
    Box(site.store, gpus=0).fill(NOW - 10_000, NOW)
    (tmp_path / "state.db").write_bytes(b"no database at all" * 1000)
    page = site.page("sources")
    assert not page.exception
    text = words(page)
    assert "the state cannot be read, so Strata's own processes are not shown" in text
    assert "state.db: is not a database" in text
    assert "samples file cannot be read" not in text
    assert any("url" in table.value.columns for table in page.dataframe)
