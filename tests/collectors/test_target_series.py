"""What a target's pages become in the store: labels, report series, staleness, limits."""

from pathlib import Path

import numpy as np
import pytest

from collectors.exposition import PageParser
from collectors.target_series import REPORT_METRICS, LimitExceeded, SeriesLimits, TargetSeries
from db.labels import Labels, labels_from
from db.maintenance import Maintainer
from db.nan import is_absent, is_stale
from db.records import DenseAppend, Matcher, SparseAppend, named
from db.store import SampleStore

TARGET = labels_from({"job": "j", "instance": "h:1"})


class Target:
    """A target series with its parser, writing to a real store."""

    def __init__(self, folder: Path, **options) -> None:
        self.series = TargetSeries(name="t", labels=TARGET, **options)
        self.parser = PageParser()
        self.store = SampleStore.open(folder / "samples.db")
        self.at_ms = 0

    def page(self, text: str) -> list[DenseAppend | SparseAppend]:
        self.at_ms += 1_000
        page = self.parser.parse(text.encode(), "text")
        appends = self.series.scraped(page.layout, page.values, page.timestamps, self.at_ms, 0.25)
        self.store.write(appends)
        return appends

    def fail(self) -> None:
        self.at_ms += 1_000
        self.store.write(self.series.failed(self.at_ms, 0.5))

    def values(self, metric: str, **labels: str) -> list[tuple[int, float | str]]:
        matchers = [named(metric), *(Matcher(name, "=", value) for name, value in labels.items())]
        (found,) = self.store.select(matchers, 0, 10**9)
        stale = is_stale(found.values)
        return [
            (int(at), "stale" if ended else float(value))
            for at, value, ended in zip(found.timestamps, found.values, stale, strict=True)
        ]


@pytest.fixture
def target(tmp_path: Path):
    made = []

    def make(**options) -> Target:
        made.append(Target(tmp_path, **options))
        return made[-1]

    yield make
    for item in made:
        item.store.close()


def labels_of(appends) -> set[Labels]:
    return {
        labels
        for append in appends
        for labels in append.new_series
        if dict(labels)["__name__"] not in REPORT_METRICS
    }


def test_a_page_gets_the_target_labels_and_the_report_series(target) -> None:
    t = target()
    t.page('a{x="1"} 5\nb 6\n')
    assert t.values("a", x="1", job="j", instance="h:1") == [(1_000, 5.0)]
    assert t.values("up") == [(1_000, 1.0)]
    assert t.values("scrape_duration_seconds") == [(1_000, 0.25)]
    assert t.values("scrape_samples_scraped") == [(1_000, 2.0)]
    assert t.values("scrape_series_added") == [(1_000, 2.0)]


def test_a_series_that_vanishes_gets_one_marker_and_can_come_back(target) -> None:
    t = target()
    t.page("a 1\nb 1\n")
    t.page("a 2\n")
    t.page("a 3\n")
    t.page("a 4\nb 4\n")
    assert t.values("b") == [(1_000, 1.0), (2_000, "stale"), (4_000, 4.0)]
    assert t.values("a") == [(1_000, 1.0), (2_000, 2.0), (3_000, 3.0), (4_000, 4.0)]
    assert t.values("scrape_series_added") == [(1_000, 2.0), (2_000, 0.0), (3_000, 0.0), (4_000, 0.0)]


def test_a_failed_scrape_ends_every_series_but_its_report(target) -> None:
    t = target()
    t.page("a 1\n")
    t.fail()
    t.fail()
    t.page("a 4\n")
    assert t.values("a") == [(1_000, 1.0), (2_000, "stale"), (4_000, 4.0)]
    assert t.values("up") == [(1_000, 1.0), (2_000, 0.0), (3_000, 0.0), (4_000, 1.0)]
    assert t.values("scrape_samples_scraped")[1] == (2_000, 0.0)


def test_a_target_that_is_gone_ends_its_report_too(target) -> None:
    t = target()
    t.page("a 1\n")
    t.store.write(t.series.vanished(2_000))
    assert t.values("up") == [(1_000, 1.0), (2_000, "stale")]
    assert t.values("a") == [(1_000, 1.0), (2_000, "stale")]


def test_a_target_that_never_answered_leaves_nothing_to_end(target) -> None:
    assert target().series.vanished(1_000) == []


@pytest.mark.parametrize(
    ("honor", "expected"),
    [
        (False, {"job": "j", "exported_job": "theirs", "instance": "h:1"}),
        (True, {"job": "theirs", "instance": "h:1"}),
    ],
)
def test_label_clashes_follow_honor_labels(target, honor: bool, expected: dict[str, str]) -> None:
    (labels,) = labels_of(target(honor_labels=honor).page('a{job="theirs"} 1\n'))
    assert dict(labels) == {"__name__": "a", **expected}


def test_a_renamed_label_never_overwrites_another(target) -> None:
    (labels,) = labels_of(target().page('a{job="x",exported_job="y"} 1\n'))
    assert dict(labels) == {
        "__name__": "a", "job": "j", "exported_job": "y", "exported_exported_job": "x", "instance": "h:1"
    }  # fmt: skip


def test_the_first_of_a_repeated_series_counts(target) -> None:
    t = target()
    t.page('a{x="1",y="2"} 1\na{y="2",x="1"} 9\nb 3\n')
    assert t.values("a") == [(1_000, 1.0)]
    assert t.series.duplicates == 1
    t.page('a{x="1",y="2"} 4\na{y="2",x="1"} 9\nb 3\n')
    assert t.values("a") == [(1_000, 1.0), (2_000, 4.0)]


def test_relabelling_drops_and_renames_series(target) -> None:
    def relabel(labels: dict[str, str]) -> dict[str, str] | None:
        if labels["__name__"] == "secret":
            return None
        return {**labels, "__name__": labels["__name__"].upper()}

    t = target(metric_relabel=relabel)
    t.page("secret 1\na 2\n")
    t.page("secret 1\na 3\n")
    assert t.values("A") == [(1_000, 2.0), (2_000, 3.0)]
    assert t.store.select([Matcher("__name__", "=~", "(?i)secret")], 0, 10**9) == []
    assert t.values("scrape_samples_scraped")[1] == (2_000, 2.0)
    assert t.values("scrape_samples_post_metric_relabeling")[1] == (2_000, 1.0)


@pytest.mark.parametrize(
    ("limits", "page", "reason"),
    [
        (SeriesLimits(sample_limit=1), "a 1\nb 1\n", "2 samples, more than sample_limit 1"),
        (SeriesLimits(label_limit=3), 'a{x="1"} 1\n', "4 labels, more than label_limit 3"),
        (SeriesLimits(label_name_length_limit=8), 'a{long_name="1"} 1\n', "label_name_length_limit 8"),
        (SeriesLimits(label_value_length_limit=3), 'a{x="1234"} 1\n', "label_value_length_limit 3"),
    ],
)
def test_a_page_over_a_limit_is_refused_as_a_whole(target, limits, page: str, reason: str) -> None:
    t = target(limits=limits)
    t.page("a 1\n")
    with pytest.raises(LimitExceeded, match=reason):
        t.page(page)
    t.store.write(t.series.failed(t.at_ms, 0.5))
    assert t.values("a", job="j") == [(1_000, 1.0), (2_000, "stale")]
    t.page("a 3\n")
    assert t.values("a")[-1] == (3_000, 3.0)


def test_page_timestamps_are_kept_and_such_series_are_never_ended(target) -> None:
    t = target()
    t.page("a 1 500\nb 2\n")
    t.page("b 3\n")
    assert t.values("a") == [(500, 1.0)]
    assert t.values("b") == [(1_000, 2.0), (2_000, 3.0)]


def test_page_timestamps_can_be_ignored(target) -> None:
    t = target(honor_timestamps=False)
    t.page("a 1 500\n")
    t.page("b 3\n")
    assert t.values("a") == [(1_000, 1.0), (2_000, "stale")]


def test_churn_begins_a_new_order_and_loses_nothing(target) -> None:
    t = target()
    for turn in range(6):
        t.page(
            "".join(f'm{{turn="{turn}",i="{index}"}} {turn}\n' for index in range(400)) + f"stays {turn}\n"
        )
    last = t.page("stays 6\n" + "".join(f'm{{turn="6",i="{index}"}} 6\n' for index in range(400)))
    assert len(last[-1].values) < 1_500  # dead slots went
    assert t.values("stays") == [(1_000 * (turn + 1), float(turn)) for turn in range(7)]
    for turn in range(6):
        assert t.values("m", turn=str(turn), i="7") == [
            (1_000 * (turn + 1), float(turn)),
            (1_000 * (turn + 2), "stale"),
        ]


def test_an_unchanged_page_announces_nothing(target) -> None:
    t = target()
    t.page("a 1\n")
    (second,) = t.page("a 2\n")
    assert second.new_series == []
    assert not is_absent(second.values).any()
    assert np.array_equal(second.values[len(REPORT_METRICS) :], [2.0])


def test_an_empty_label_takes_the_targets_own_away_where_labels_are_honored(target) -> None:
    """Pushgateway prints instance="" for a group without one (README, "About the job and instance label")."""
    t = target(honor_labels=True)
    t.page('pushed{instance="",job="batch"} 1\nplain{a=""} 2\n')
    (pushed,) = t.store.select([named("pushed")], 0, 10**9)
    assert pushed.labels == labels_from({"job": "batch"}, "pushed")
    (plain,) = t.store.select([named("plain")], 0, 10**9)
    assert plain.labels == labels_from(TARGET, "plain")


def test_an_empty_label_is_no_label_where_labels_are_not_honored(target) -> None:
    t = target()
    t.page('a{instance=""} 1\n')
    (series,) = t.store.select([named("a")], 0, 10**9)
    assert series.labels == labels_from(TARGET, "a")


def test_one_series_may_have_several_samples_if_each_has_its_own_time(target) -> None:
    t = target()
    for _ in range(2):
        t.page("a 1 100\na 2 200\na 3 300\nb 5\nb 6\nb 7 50\n")
    assert t.values("a") == [(100, 1.0), (200, 2.0), (300, 3.0)]
    assert t.values("b") == [(50, 7.0), (1_000, 5.0), (2_000, 5.0)]
    assert t.series.duplicates == 1
    assert t.values("scrape_samples_post_metric_relabeling")[0] == (1_000, 6.0)


def test_a_sample_far_in_the_future_is_left_out_as_prometheus_does(target) -> None:
    t = target()
    minutes = 60_000
    t.page(f"near 1 {1_000 + 10 * minutes}\nfar 2 {1_001 + 10 * minutes}\nmost 3 {2**63 - 1}\nb 4\n")
    assert t.values("near") == [(601_000, 1.0)]
    assert t.store.select([named("far")], 0, 2**63 - 1) == []
    assert t.store.select([named("most")], 0, 2**63 - 1) == []
    assert t.values("b") == [(1_000, 4.0)]
    assert t.series.too_far_ahead == 2
    t.page("b 4\n")
    assert t.series.too_far_ahead == 0


def test_losing_an_append_while_a_page_is_placed_spoils_neither(target) -> None:
    """The store tells of a loss from another thread than the one that places a page."""
    t = target(
        metric_relabel=lambda labels: (t.series.forget_order() if "late" in labels else None) or labels
    )
    t.page("a 1\n")
    t.page('a 2\nb{late="1"} 2\n')
    assert t.series.order is None
    t.page("a 3\nb 3\n")
    assert t.values("a") == [(1_000, 1.0), (2_000, 2.0), (3_000, 3.0)]


def test_orders_that_ended_are_forgotten_and_go_once_they_are_sealed(target) -> None:
    t = target()
    t.page("a 1\n")
    t.at_ms += 1_000
    t.store.write(t.series.vanished(t.at_ms))
    assert t.values("up") == [(1_000, 1.0), (2_000, "stale")]
    assert t.series.vanished(t.at_ms) == []
    t.page("a 2\n")
    assert t.values("a") == [(1_000, 1.0), (2_000, "stale"), (3_000, 2.0)]
    assert len(t.store._lengths.known) == 1
    maintainer = Maintainer(t.store.engine)
    maintainer.seal(t.at_ms, kept_ms=0)
    maintainer.retain(0)
    assert t.values("a") == [(1_000, 1.0), (2_000, "stale"), (3_000, 2.0)]
    with t.store.engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM layout").scalar_one() == 1
        assert connection.exec_driver_sql("SELECT count(*) FROM layout_slot").scalar_one() == 6
    t.page("a 3\n")
    assert t.values("a")[-1] == (4_000, 3.0)
