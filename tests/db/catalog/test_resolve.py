"""From a signal to PromQL: what fits a store's metrics, joined so that nothing counts twice."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from db.catalog.catalog import Catalog, UnknownSignal
from db.catalog.load import load_catalog
from db.catalog.read import Reading, read_signal
from db.catalog.signal import Missing, Resolved
from db.labels import labels_from
from tests.db.catalog.pages import FIRST_MS, LAST_MS, STEP_MS, STEPS, Scrape, names_of, stored

TWO_ENGINES = """\
exporters:
  sun:
    title: Sun
    detect: [sun_up]
    install: "Install Sun."
    labels: {model: [served, name], node: [{label: instance, match: "(.+?)(:[0-9]+)?"}]}
    signals:
      requests_running: {value: sun_running}
      requests_waiting: {value: sun_ranks, within: max}
      prefix_cache_hit_ratio: {ratio: ["rate(sun_hits[$window])", "rate(sun_asked[$window])"]}
      kv_cache_usage: {value: sun_kv, scale: 0.01}
      ttft: {histogram: 'sun_ttft_ms{kind!="probe"}', scale: 0.001}
      node_load1: {value: sun_load}
      lora_adapters_running: {value: sun_lora, enable: "start it with --lora"}
      engine_healthy: {value: "1 - {{kv_cache_usage}}"}
      model_load_seconds: [{value: sun_loaded, unless: [sun_loaded_ms]}, {value: sun_loaded_ms, scale: 0.001}]
      batch_size: {value: sun_batch, where: ['sun_info{version=~"2.*"}']}
  moon:
    title: Moon
    detect: [moon_up]
    install: "Install Moon."
    labels: {model: model_name}
    signals:
      requests_running: {value: moon_running}
      prefix_cache_hit_ratio: {ratio: ["rate(moon_hits[$window])", "rate(moon_asked[$window])"]}
      ttft: {histogram: moon_ttft_seconds}
      lora_adapters_running: {value: moon_lora}
"""
Samples = Mapping[tuple[str, tuple[tuple[str, str], ...]], float]


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    path = tmp_path / "engines.yaml"
    path.write_text(TWO_ENGINES)
    return load_catalog([path])


def readings(
    tmp_path: Path, catalog: Catalog, samples: Samples, name: str, by: tuple[str, ...] | None = None
) -> list[Reading]:
    """Each sample as it is throughout ten minutes; names that hold `_hits`, `_asked`, `_bucket`, `_sum` or
    `_count` grow from 0 to it."""
    labels = [labels_from(dict(pairs), metric) for metric, pairs in samples]
    grows = [any(end in metric for end in ("_hits", "_asked", "_bucket", "_count")) for metric, _ in samples]

    def scrape(step: int) -> Scrape:
        values = [
            value * step / STEPS if growing else value
            for value, growing in zip(samples.values(), grows, strict=True)
        ]
        return Scrape(FIRST_MS + step * STEP_MS, labels, values)

    with stored(tmp_path / "samples.db", [[scrape(step) for step in range(STEPS + 1)]]) as store:
        found = catalog.resolve(name, names_of(store), by=by)
        assert isinstance(found, Resolved), found
        return read_signal(store, found, LAST_MS)


def of(**labels: str) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(labels.items()))


def test_two_engines_of_one_model_are_added(tmp_path: Path, catalog: Catalog):
    samples = {
        ("sun_running", of(served="m", instance="a:1")): 3.0,
        ("sun_running", of(served="m", instance="b:1")): 4.0,
        ("moon_running", of(model_name="m", instance="c:1")): 5.0,
        ("moon_running", of(model_name="n", instance="c:1")): 6.0,
    }
    assert readings(tmp_path, catalog, samples, "requests_running") == [
        Reading(of(model="m"), 12.0),
        Reading(of(model="n"), 6.0),
    ]


def test_one_thing_that_two_exporters_report_counts_once(tmp_path: Path, catalog: Catalog):
    samples = {
        ("sun_running", of(served="m", instance="a:1")): 3.0,
        ("moon_running", of(model_name="m", instance="a:1")): 5.0,
    }
    assert readings(tmp_path, catalog, samples, "requests_running") == [Reading(of(model="m"), 3.0)]


def test_by_exporter_both_are_there(tmp_path: Path, catalog: Catalog):
    samples = {
        ("sun_running", of(served="m", instance="a:1")): 3.0,
        ("moon_running", of(model_name="m", instance="a:1")): 5.0,
    }
    found = readings(tmp_path, catalog, samples, "requests_running", ("exporter",))
    assert found == [Reading(of(exporter="moon"), 5.0), Reading(of(exporter="sun"), 3.0)]


def test_ranks_of_one_replica_are_not_added(tmp_path: Path, catalog: Catalog):
    samples = {
        ("sun_ranks", of(served="m", instance=instance, rank=rank)): 2.0
        for instance in ("a:1", "b:1")
        for rank in ("0", "1")
    }
    assert readings(tmp_path, catalog, samples, "requests_waiting") == [Reading(of(model="m"), 4.0)]


def test_the_first_label_that_is_there_wins(tmp_path: Path, catalog: Catalog):
    samples = {
        ("sun_running", of(served="m", name="other", instance="a:1")): 1.0,
        ("sun_running", of(name="n", instance="a:1")): 2.0,
        ("sun_running", of(instance="a:1")): 4.0,
    }
    assert readings(tmp_path, catalog, samples, "requests_running") == [
        Reading((), 4.0),
        Reading(of(model="m"), 1.0),
        Reading(of(model="n"), 2.0),
    ]


def test_a_part_of_a_label_is_taken(tmp_path: Path, catalog: Catalog):
    samples = {
        ("sun_load", of(instance="host-1:9100")): 1.0,
        ("sun_load", of(instance="[::1]:9100")): 2.0,
        ("sun_load", of(instance="plain")): 4.0,
    }
    assert readings(tmp_path, catalog, samples, "node_load1") == [
        Reading(of(node="[::1]"), 2.0),
        Reading(of(node="host-1"), 1.0),
        Reading(of(node="plain"), 4.0),
    ]


def test_a_ratio_is_one_of_sums(tmp_path: Path, catalog: Catalog):
    samples = {
        ("sun_hits", of(served="m", instance="a:1")): 10.0,
        ("sun_asked", of(served="m", instance="a:1")): 1000.0,
        ("moon_hits", of(model_name="m", instance="b:1")): 90.0,
        ("moon_asked", of(model_name="m", instance="b:1")): 100.0,
    }
    [found] = readings(tmp_path, catalog, samples, "prefix_cache_hit_ratio")
    assert found.value == pytest.approx(100 / 1100)
    one = readings(tmp_path / "x", catalog, samples, "prefix_cache_hit_ratio", ("model", "instance"))
    assert [round(item.value, 9) for item in one] == [0.01, 0.9]


def buckets(name: str, labels: Mapping[str, str], counts: Mapping[str, float]) -> dict:
    return {(f"{name}_bucket", of(**labels, le=edge)): count for edge, count in counts.items()} | {
        (f"{name}_count", of(**labels)): counts["+Inf"],
        (f"{name}_sum", of(**labels)): 1.0,
    }


def test_a_quantile_in_the_first_bucket_is_a_bound(tmp_path: Path, catalog: Catalog):
    samples = buckets("sun_ttft_ms", {"served": "m", "kind": "chat"}, {"300": 596, "500": 600, "+Inf": 600})
    assert readings(tmp_path, catalog, samples, "ttft_p95") == [
        Reading(of(model="m"), pytest.approx(0.3), "below", pytest.approx(300))
    ]


def test_a_quantile_above_the_last_edge_is_a_bound(tmp_path: Path, catalog: Catalog):
    samples = buckets("sun_ttft_ms", {"served": "m"}, {"300": 10, "500": 20, "+Inf": 600})
    assert readings(tmp_path, catalog, samples, "ttft_p50") == [
        Reading(of(model="m"), pytest.approx(0.5), "above", pytest.approx(300))
    ]


def test_matchers_of_a_family_hold_for_its_buckets(tmp_path: Path, catalog: Catalog):
    samples = buckets("sun_ttft_ms", {"served": "m", "kind": "probe"}, {"300": 1, "500": 9, "+Inf": 9})
    assert readings(tmp_path, catalog, samples, "ttft_p95") == []


def test_buckets_of_two_engines_are_never_added(tmp_path: Path, catalog: Catalog):
    """Of one model the slower engine's quantile is shown: no fewer requests were as quick."""
    samples = buckets("sun_ttft_ms", {"served": "m"}, {"100": 0, "200": 600, "+Inf": 600}) | buckets(
        "moon_ttft_seconds", {"model_name": "m"}, {"1": 0, "3": 60, "+Inf": 60}
    )
    [found] = readings(tmp_path, catalog, samples, "ttft_p50")
    assert (found.value, found.bound, found.observations) == (pytest.approx(2.0), "", pytest.approx(30))


def test_the_promql_of_a_quantile_answers_the_same(tmp_path: Path, catalog: Catalog):
    from db.promql.engine import instant

    samples = buckets("sun_ttft_ms", {"served": "m"}, {"100": 0, "200": 600, "+Inf": 600}) | buckets(
        "moon_ttft_seconds", {"model_name": "m"}, {"1": 0, "3": 60, "+Inf": 60}
    )
    labels = [labels_from(dict(pairs), metric) for metric, pairs in samples]
    scrapes = [
        Scrape(FIRST_MS + step * STEP_MS, labels, [value * step / STEPS for value in samples.values()])
        for step in range(STEPS + 1)
    ]
    with stored(tmp_path / "samples.db", [scrapes]) as store:
        found = catalog.resolve("ttft_p50", names_of(store))
        assert isinstance(found, Resolved)
        answer = instant(store, found.promql, LAST_MS)
        assert list(answer.table.rows()) == [of(model="m")]
        assert answer.values[0, 0] == pytest.approx(2.0)


def test_a_signal_of_another(tmp_path: Path, catalog: Catalog):
    samples = {("sun_kv", of(served="m", instance="a:1")): 25.0}
    [found] = readings(tmp_path, catalog, samples, "engine_healthy")
    assert found.value == 0.75
    assert isinstance(catalog.resolve("engine_healthy", {"sun_running"}), Missing)


def test_what_is_made_of_others_is_of_their_exporters_and_lacks_what_they_lack(catalog: Catalog):
    """The file that says how to compute it shows no metric of its own."""
    found = catalog.resolve("gpu_memory_used_ratio", {"DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_FREE"})
    assert isinstance(found, Resolved)
    assert found.exporters == ("dcgm",)
    missing = catalog.resolve("gpu_memory_used_ratio", {"DCGM_FI_DEV_GPU_UTIL"})
    assert isinstance(missing, Missing)
    assert (missing.ways[0].exporter, missing.ways[0].present) == ("dcgm", True)
    assert "strata" not in {way.exporter for way in missing.ways}


def test_unless_and_its_alternative(catalog: Catalog):
    both = catalog.resolve("model_load_seconds", {"sun_loaded", "sun_loaded_ms"})
    assert isinstance(both, Resolved)
    assert "sun_loaded_ms" in both.promql
    assert " or " not in both.promql


def test_a_version_condition(catalog: Catalog):
    asked = []

    def has_series(selector: str) -> bool:
        asked.append(selector)
        return False

    assert isinstance(catalog.resolve("batch_size", {"sun_batch"}, has_series=has_series), Missing)
    assert asked == ['sun_info{version=~"2.*"}']
    assert isinstance(catalog.resolve("batch_size", {"sun_batch"}, has_series=lambda _: True), Resolved)


def test_what_is_missing_comes_with_the_ways_to_it(catalog: Catalog):
    found = catalog.resolve("lora_adapters_running", {"moon_up", "sun_up"})
    assert isinstance(found, Missing)
    ways = [(way.exporter, way.present, way.text) for way in found.ways if way.exporter in ("sun", "moon")]
    assert ways == [
        ("sun", True, "start it with --lora"),
        ("moon", True, "its page has no moon_lora"),
    ]
    elsewhere = catalog.resolve("lora_adapters_running", {"moon_up"})
    assert isinstance(elsewhere, Missing)
    ways = [
        (way.exporter, way.present, way.text) for way in elsewhere.ways if way.exporter in ("sun", "moon")
    ]
    assert ways == [("moon", True, "its page has no moon_lora"), ("sun", False, "Install Sun.")]


@pytest.mark.parametrize(
    ("name", "by", "reason"),
    [
        ("ttft_p59", None, "no signal 'ttft_p59'; did you mean 'ttft_p"),
        ("gpu_power_watts", ("model",), "gpu_power_watts cannot be shown by 'model': it has uuid, gpu, node"),
        ("joules_per_token", ("node",), "it has no labels"),
    ],
)
def test_a_question_that_cannot_be_answered(catalog: Catalog, name: str, by: tuple[str, ...], reason: str):
    with pytest.raises(UnknownSignal) as caught:
        catalog.resolve(name, set(), by=by)
    assert reason in str(caught.value)
