"""The store's promises: what was acknowledged is read back exactly, by any process, in any mix of writes."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from db.errors import BadMatcher, StoreUnreachable, Unstorable, WriteRefused
from db.labels import Labels, labels_from
from db.maintenance import Maintainer
from db.nan import ABSENT, NORMAL, NORMAL_BITS, STALE, STALE_BITS, has_bits
from db.records import DenseAppend, Matcher, MetricMetadata, Slab, SourceReport, SparseAppend, named
from db.store import SampleStore


@pytest.fixture
def store(tmp_path: Path):
    opened = SampleStore.open(tmp_path / "samples.db")
    yield opened
    opened.close()


def series(name: str, **labels: str) -> Labels:
    return labels_from(labels, name)


UP = series("up", job="a", instance="h:1")
TEMP = series("temp", job="a", instance="h:1", gpu="0")


def test_a_scrape_is_read_back_exactly(store: SampleStore) -> None:
    store.write([DenseAppend("t", [UP, TEMP], 1_000, np.array([1.0, 61.25]))])
    store.write([DenseAppend("t", [], 2_000, np.array([0.0, STALE]))])
    (found,) = store.select([named("temp")], 0, 5_000)
    assert found.labels == TEMP
    assert found.timestamps.tolist() == [1_000, 2_000]
    assert found.values[0] == 61.25
    assert has_bits(found.values, STALE_BITS).tolist() == [False, True]


def test_the_three_nans_stay_apart(store: SampleStore) -> None:
    nan = series("n")
    store.write([DenseAppend("t", [UP, TEMP, nan], 1_000, np.array([STALE, ABSENT, NORMAL]))])
    (up,) = store.select([named("up")], 0, 5_000)
    (normal,) = store.select([named("n")], 0, 5_000)
    assert has_bits(up.values, STALE_BITS).all()
    assert has_bits(normal.values, NORMAL_BITS).all()
    assert store.select([named("temp")], 0, 5_000) == []


def test_both_ends_of_the_window_are_included(store: SampleStore) -> None:
    for at in (1_000, 2_000, 3_000, 4_000):
        store.write([DenseAppend("t", [UP] if at == 1_000 else [], at, np.array([float(at)]))])
    (found,) = store.select([named("up")], 2_000, 3_000)
    assert found.timestamps.tolist() == [2_000, 3_000]


def test_an_order_grows_and_older_rows_stay_readable(store: SampleStore) -> None:
    store.write([DenseAppend("t", [UP], 1_000, np.array([1.0]))])
    store.write([DenseAppend("t", [TEMP], 2_000, np.array([1.0, 50.0]))])
    (temp,) = store.select([named("temp")], 0, 9_000)
    assert temp.timestamps.tolist() == [2_000]
    (up,) = store.select([named("up")], 0, 9_000)
    assert up.timestamps.tolist() == [1_000, 2_000]


def test_values_that_do_not_fit_the_order_are_refused_and_nothing_is_stored(store: SampleStore) -> None:
    with pytest.raises(Unstorable, match="2 values for 1 series"):
        store.write([DenseAppend("t", [UP], 1_000, np.array([1.0, 2.0]))])
    assert store.select([], 0, 9_000) == []
    store.write([DenseAppend("t", [UP], 1_000, np.array([7.0]))])
    assert store.select([], 0, 9_000)[0].values.tolist() == [7.0]


def test_the_last_write_wins_across_orders_and_sparse_rows(store: SampleStore) -> None:
    store.write([DenseAppend("one", [UP], 1_000, np.array([1.0]))])
    store.write([SparseAppend([UP], np.array([1_000]), np.array([2.0]))])
    assert store.select([named("up")], 0, 9_000)[0].values.tolist() == [2.0]
    store.write([DenseAppend("two", [UP], 1_000, np.array([3.0]))])
    assert store.select([named("up")], 0, 9_000)[0].values.tolist() == [3.0]
    assert store.latest([named("up")], 1_000)[0].value == 3.0
    store.write([SparseAppend([UP, UP], np.array([1_000, 1_000]), np.array([4.0, 5.0]))])
    assert store.select([named("up")], 0, 9_000)[0].values.tolist() == [5.0]
    assert store.latest([named("up")], 1_000)[0].value == 5.0


def test_latest_forgets_what_ended_or_is_too_old(store: SampleStore) -> None:
    store.write([DenseAppend("t", [UP, TEMP], 1_000, np.array([1.0, 50.0]))])
    assert [sample.value for sample in store.latest([], 2_000)] == [50.0, 1.0]
    store.write([DenseAppend("t", [], 2_000, np.array([1.0, STALE]))])
    assert [sample.labels for sample in store.latest([], 2_500)] == [UP]
    assert [sample.labels for sample in store.latest([], 1_500)] == [TEMP, UP]
    assert store.latest([], 2_000 + 300_000) == []
    assert len(store.latest([], 1_999 + 300_000)) == 1


def test_latest_looks_behind_a_slot_that_the_newest_scrape_left_empty(store: SampleStore) -> None:
    store.write([DenseAppend("t", [UP, TEMP], 1_000, np.array([1.0, 50.0]))])
    store.write([DenseAppend("t", [], 2_000, np.array([1.0, ABSENT]))])
    assert [(s.timestamp_ms, s.value) for s in store.latest([named("temp")], 3_000)] == [(1_000, 50.0)]


MATCHER_CASES = [
    ([Matcher("job", "=", "a")], {"x", "y"}),
    ([Matcher("job", "!=", "a")], {"z", "w"}),
    ([Matcher("job", "=", "")], {"w"}),
    ([Matcher("job", "!=", "")], {"x", "y", "z"}),
    ([Matcher("job", "=~", "a|b")], {"x", "y", "z"}),
    ([Matcher("job", "=~", "a|")], {"x", "y", "w"}),
    ([Matcher("job", "!~", "a|")], {"z"}),
    ([Matcher("job", "!~", "a")], {"z", "w"}),
    ([Matcher("job", "=~", ".*")], {"x", "y", "z", "w"}),
    ([Matcher("job", "=~", ".+")], {"x", "y", "z"}),
    ([Matcher("gpu", "=~", "[01]"), Matcher("job", "=", "a")], {"x", "y"}),
    ([Matcher("gpu", "=~", "1.*"), Matcher("job", "=", "a")], {"y"}),
    ([Matcher("missing", "=", "v")], set()),
    ([Matcher("missing", "!=", "v")], {"x", "y", "z", "w"}),
    ([], {"x", "y", "z", "w"}),
]


@pytest.mark.parametrize(("matchers", "expected"), MATCHER_CASES)
def test_matchers_mean_what_prometheus_means(
    store: SampleStore, matchers: list[Matcher], expected: set[str]
) -> None:
    all_series = [
        series("x", job="a", gpu="0"),
        series("y", job="a", gpu="1"),
        series("z", job="b"),
        series("w", other="job\nwith 'quotes\"\\"),
    ]
    store.write([DenseAppend("t", all_series, 1_000, np.arange(4.0))])
    found = store.select(matchers, 0, 9_000)
    assert {dict(item.labels)["__name__"] for item in found} == expected


def test_a_pattern_that_is_not_re2_is_one_clear_sentence(store: SampleStore) -> None:
    with pytest.raises(BadMatcher, match=r'job=~"\(\?=x\)": not a valid RE2 expression'):
        store.select([Matcher("job", "=~", "(?=x)")], 0, 1)


def test_another_process_sees_what_was_acknowledged(store: SampleStore, tmp_path: Path) -> None:
    before = store.generation()
    code = (
        "import sys, numpy as np; from pathlib import Path\n"
        "from db.store import SampleStore; from db.records import DenseAppend\n"
        "s = SampleStore.open(Path(sys.argv[1]))\n"
        "s.write([DenseAppend('p', [(('__name__', 'up'),)], 5000, np.array([42.0]))])\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "samples.db")], check=True)
    assert store.select([named("up")], 0, 9_000)[0].values.tolist() == [42.0]
    assert store.generation() != before


def test_a_refused_write_can_be_repeated(tmp_path: Path) -> None:
    store = SampleStore.open(tmp_path / "samples.db")
    append = DenseAppend("t", [UP], 1_000, np.array([1.0]))
    with store.engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA query_only=ON")
    try:
        with pytest.raises(WriteRefused, match="read-only"):
            store.write([append])
    finally:
        with store.engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA query_only=OFF")
    store.write([append])
    assert len(store.select([], 0, 9_000)) == 1
    store.close()


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    path = tmp_path / "samples.db"
    path.write_text("this is a text file, not a database, and long enough to be read as a header " * 20)
    with pytest.raises(StoreUnreachable, match=r"samples\.db: .*not a database"):
        SampleStore.open(path)


def test_metadata_and_sources_are_written_with_the_samples(store: SampleStore) -> None:
    report = SourceReport(
        "scrape", "a", "h:1", "http://h:1/metrics", "down", 15.0, 1, None, 0.5, 0, "refused"
    )
    store.write([], [report], [MetricMetadata("up", "gauge", "is it up", "")] * 2)
    store.write([], [SourceReport("collector", "host", "me", "", "up", 5.0, labels=(("job", "node"),))])
    assert store.metadata() == [MetricMetadata("up", "gauge", "is it up", "")]
    assert [source.pool for source in store.sources()] == ["host", "a"]
    assert store.sources()[1] == report
    store.write([], [SourceReport("scrape", "a", "h:1", "http://h:1/m", "up", 15.0)])
    assert store.sources()[1].error == ""
    store.retain_sources([("collector", "host", "me", "")])
    assert [source.pool for source in store.sources()] == ["host"]


SERIES = [series("m", i=str(index)) for index in range(6)]
VALUES = st.one_of(st.floats(allow_nan=False), st.just(STALE), st.just(NORMAL))


@st.composite
def writes(draw):
    """A run of dense scrapes over three orders and sparse rows, with gaps and equal timestamps."""
    steps = []
    for _ in range(draw(st.integers(1, 12))):
        at = draw(st.integers(0, 6))
        if draw(st.booleans()):
            key = draw(st.sampled_from(["a", "b"]))
            steps.append((key, at, draw(st.dictionaries(st.sampled_from(SERIES), VALUES, max_size=4))))
        else:
            rows = draw(st.lists(st.tuples(st.sampled_from(SERIES), st.integers(0, 6), VALUES), max_size=4))
            steps.append((None, at, rows))
    return steps


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(writes())
def test_any_mix_of_writes_reads_like_one_dictionary(tmp_path_factory, steps) -> None:
    store = SampleStore.open(tmp_path_factory.mktemp("mix") / "samples.db")
    expected: dict[Labels, dict[int, int]] = {}
    orders: dict[str, list[Labels]] = {"a": [], "b": []}

    def bits(value: float) -> int:
        return int(np.array([value]).view(np.uint64)[0])

    for key, at, content in steps:
        if key is None:
            if content:
                labels, stamps, values = zip(*content, strict=True)
                store.write([SparseAppend(labels, np.array(stamps), np.array(values))])
            for labels, stamp, value in content:
                expected.setdefault(labels, {})[stamp] = bits(value)
        else:
            order = orders[key]
            fresh = [labels for labels in content if labels not in order]
            order.extend(fresh)
            row = np.array([content.get(labels, ABSENT) for labels in order], dtype=np.float64)
            store.write([DenseAppend(key, fresh, at, row)])
            for labels, value in content.items():
                expected.setdefault(labels, {})[at] = bits(value)
    found = {
        item.labels: dict(zip(item.timestamps.tolist(), item.values.view(np.uint64).tolist(), strict=True))
        for item in store.select([], 0, 10)
    }
    assert found == expected
    newest = {sample.labels: (sample.timestamp_ms, bits(sample.value)) for sample in store.latest([], 10)}
    live = {labels: max(points.items()) for labels, points in expected.items()}
    assert newest == {labels: item for labels, item in live.items() if item[1] != STALE_BITS}
    store.close()


def test_the_orders_of_a_process_that_was_killed_go_once_they_are_sealed(tmp_path: Path) -> None:
    former = SampleStore.open(tmp_path / "samples.db")
    former.write([DenseAppend("killed", [UP], 1_000, np.array([1.0]))])
    former.close()
    store = SampleStore.open(tmp_path / "samples.db")
    store.write([DenseAppend("own", [TEMP], 1_000, np.array([2.0]))])
    store.end_orders()
    maintainer = Maintainer(store.engine)
    maintainer.seal(10**9)
    maintainer.retain(0)
    with store.engine.connect() as connection:
        kept = connection.exec_driver_sql("SELECT key FROM layout").scalars().all()
    assert kept == ["own"]
    store.write([DenseAppend("own", [], 2_000, np.array([3.0]))])
    found = {item.labels: item.values.tolist() for item in store.select([], 0, 9_000)}
    assert found == {UP: [1.0], TEMP: [2.0, 3.0]}
    store.close()


@pytest.mark.parametrize("at", [-(2**63), -(2**63) + 1, 2**63 - 1])
def test_a_time_that_no_clock_has_is_refused_and_asking_for_all_time_is_not(
    store: SampleStore, at: int
) -> None:
    store.write([SparseAppend([UP], np.array([5]), np.array([1.0]))])
    for append in (
        SparseAppend([UP], np.array([at]), np.array([2.0])),
        DenseAppend("t", [TEMP], at, np.array([2.0])),
    ):
        with pytest.raises(Unstorable, match="farther from 1970"):
            store.write([append])
    with pytest.raises(Unstorable, match="farther from 1970"):
        store.load([Slab([UP], np.array([at]), np.array([[2.0]]))])
    for sealed in (False, True):
        if sealed:
            Maintainer(store.engine).seal(10**9)
        (found,) = store.select([], -(2**63), 2**63 - 1)
        assert found.values.tolist() == [1.0]


def test_more_new_series_than_one_transaction_takes(store: SampleStore) -> None:
    many = [series("m", i=str(index)) for index in range(9_000)]
    store.write([DenseAppend("t", many, 1_000, np.arange(9_000.0))])
    store.write([DenseAppend("t", [], 2_000, np.arange(9_000.0) + 1)])
    found = store.latest_columns([named("m")], 2_000)
    assert {dict(labels)["i"]: value for labels, value in zip(found.series, found.values, strict=True)} == {
        str(index): index + 1.0 for index in range(9_000)
    }
