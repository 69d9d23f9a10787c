"""PromQL that is put together: one label set out of two series, a part without traffic, names old and new."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from db.catalog.load import load_catalog
from db.catalog.read import Reading, read_signal
from db.catalog.signal import Resolved
from db.labels import labels_from
from db.promql.engine import instant
from tests.db.catalog.pages import FIRST_MS, LAST_MS, STEP_MS, STEPS, Scrape, names_of, stored

Samples = Mapping[tuple[str, tuple[tuple[str, str], ...]], float]
STARS = """\
exporters:
  star:
    title: Star
    detect: [star_up]
    install: "Install Star."
    labels:
      instance: backend
      model: [model, served]
      namespace: [exported_namespace, namespace]
      pod: namespace
    signals:
      requests_running: {value: star_running}
      batch_size: {ratio: ["rate(star_batched[$window])", "rate(star_batches[$window])"]}
      kv_cache_usage: {value: "star_kv # the engine's own", scale: 0.01}
      itl:
        - {histogram: star_itl_seconds}
        - {histogram: star_itl_old_seconds}
"""


def of(**labels: str) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(labels.items()))


def readings(tmp_path: Path, samples: Samples, name: str, by: tuple[str, ...] | None = None) -> list[Reading]:
    """What the signal is after ten minutes in which everything grew evenly to its value; the same whether
    its reader or its PromQL is asked."""
    path = tmp_path / "stars.yaml"
    path.write_text(STARS)
    labels = [labels_from(dict(pairs), metric) for metric, pairs in samples]
    scrapes = [
        Scrape(FIRST_MS + step * STEP_MS, labels, [value * step / STEPS for value in samples.values()])
        for step in range(STEPS + 1)
    ]
    with stored(tmp_path / "samples.db", [scrapes]) as store:
        resolved = load_catalog([path]).resolve(name, names_of(store), by=by)
        assert isinstance(resolved, Resolved), resolved
        found = read_signal(store, resolved, LAST_MS)
        answer = instant(store, resolved.promql, LAST_MS)
        theirs = dict(zip(map(tuple, answer.table.rows()), answer.values[:, 0].tolist(), strict=True))
        assert {item.labels: item.value for item in found} == pytest.approx(theirs, nan_ok=True)
        return found


def test_two_proxies_of_one_backend_are_no_error(tmp_path: Path):
    """The canonical instance is the backend: without the proxies' own, their series are alike."""
    samples = {
        ("star_running", of(served="m", backend="b", instance="proxy-1:1")): 3.0,
        ("star_running", of(served="m", backend="b", instance="proxy-2:1")): 4.0,
    }
    assert readings(tmp_path, samples, "requests_running", ("instance",)) == [Reading(of(instance="b"), 7.0)]


def test_a_label_that_is_replaced_is_still_a_source(tmp_path: Path):
    samples = {
        ("star_running", of(model="own", served="other", exported_namespace="a", namespace="b")): 1.0,
        ("star_running", of(served="other", namespace="b")): 2.0,
    }
    assert readings(tmp_path, samples, "requests_running", ("model", "namespace", "pod")) == [
        Reading(of(model="other", namespace="b", pod="b"), 2.0),
        Reading(of(model="own", namespace="a", pod="b"), 1.0),
    ]


def test_a_replica_without_traffic_does_not_hide_the_others(tmp_path: Path):
    samples = {
        ("star_batched", of(served="m", backend="a")): 80.0,
        ("star_batches", of(served="m", backend="a")): 20.0,
        ("star_batched", of(served="m", backend="b")): 0.0,
        ("star_batches", of(served="m", backend="b")): 0.0,
        ("star_batched", of(served="idle", backend="c")): 0.0,
        ("star_batches", of(served="idle", backend="c")): 0.0,
    }
    idle, busy = readings(tmp_path, samples, "batch_size")
    assert busy == Reading(of(model="m"), pytest.approx(4.0))
    assert idle.labels == of(model="idle")
    assert idle.value != idle.value  # nothing is known of it, and it is there


def test_a_comment_ends_with_its_line(tmp_path: Path):
    samples = {("star_kv", of(served="m", backend="a")): 50.0}
    assert readings(tmp_path, samples, "kv_cache_usage", ("model",)) == [Reading(of(model="m"), 0.5)]


def buckets(name: str, labels: Mapping[str, str], counts: Mapping[str, float]) -> dict:
    return {(f"{name}_bucket", of(**labels, le=edge)): count for edge, count in counts.items()}


def test_replicas_with_the_old_and_the_new_name_both_count(tmp_path: Path):
    """One model, one exporter, two versions: the slower replica is shown, whichever name it has."""
    old = buckets("star_itl_old_seconds", of_dict("a"), {"1": 0, "3": 60, "+Inf": 60})
    new = buckets("star_itl_seconds", of_dict("b"), {"0.1": 0, "0.2": 60, "+Inf": 60})
    [found] = readings(tmp_path, old | new, "itl_p50")
    assert found.value == pytest.approx(2.0)


def of_dict(backend: str) -> dict[str, str]:
    return {"served": "m", "backend": backend}


def test_a_version_without_traffic_does_not_hide_the_other(tmp_path: Path):
    old = buckets("star_itl_old_seconds", of_dict("a"), {"1": 0, "3": 0, "+Inf": 0})
    new = buckets("star_itl_seconds", of_dict("b"), {"0.1": 0, "0.2": 60, "+Inf": 60})
    [found] = readings(tmp_path, old | new, "itl_p50")
    assert found.value == pytest.approx(0.15)
