"""Serving engines together: mixed fleets, copies of exporters, what is missing, and what Prometheus says."""

import math
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from collectors.exposition import PageParser
from db.catalog.load import load_catalog
from db.catalog.read import Reading, read_signal
from db.catalog.signal import Missing, Resolved, Variant
from db.promql.engine import instant
from db.store import SampleStore
from tests.db.catalog.pages import LAST_MS, Scrape, fixture, names_of, ramped, read_page, stored
from tests.genuine_prometheus import prometheus
from tests.promql.pushed import push
from tests.promql.samples import Samples

CATALOG = load_catalog()
# Pages of every engine at once, by instance; the last is no engine at all.
FLEET = {
    "old:8000": "engines/vllm-0.6.prom",
    "moe:8000": "engines/vllm-0.8-two-engines.prom",
    "small:8000": "engines/vllm-small.prom",
    "router:8001": "engines/vllm-router.prom",
    "sg:30000": "engines/sglang-small.prom",
    "ranks:30000": "engines/sglang-ranks.prom",
    "prefill:30000": "engines/sglang-prefill.prom",
    "decode:30000": "engines/sglang-decode.prom",
    "otel:9464": "engines/sglang-underscored.prom",
    "trt:8000": "engines/trtllm-serve.prom",
    "tri:8002": "engines/triton.prom",
    "nim:8000": "engines/nim.prom",
    "ll:8080": "engines/llamacpp-drafts.prom",
    "ray:8080": "engines/ray-vllm.prom",
    "shop:80": "engines/generic-names.prom",
}


def target(instance: str, name: str) -> list[Scrape]:
    return list(ramped(read_page(fixture(name)), {"job": "engines", "instance": instance}))


def written(instance: str, text: str) -> list[Scrape]:
    """A page that stands in the test."""
    page = PageParser().parse(text.encode(), "text")
    return list(ramped(page, {"job": "engines", "instance": instance}))


@contextmanager
def fleet(folder: Path, *targets: Iterable[Scrape]) -> Iterator[SampleStore]:
    with stored(folder / "samples.db", targets) as store:
        yield store


def answer(store: SampleStore, name: str, by: tuple[str, ...] | None = None) -> list[Reading]:
    resolved = CATALOG.resolve(name, names_of(store), by=by)
    assert isinstance(resolved, Resolved), resolved
    return read_signal(store, resolved, LAST_MS)


def values(store: SampleStore, name: str, by: tuple[str, ...] | None = None) -> dict[tuple[str, ...], float]:
    """By the labels' values."""
    return {tuple(text for _, text in one.labels): one.value for one in answer(store, name, by)}


def test_two_engines_that_serve_one_model_are_added(tmp_path: Path):
    with fleet(
        tmp_path,
        target("a:8000", "engines/vllm-small.prom"),
        target("b:30000", "engines/sglang-small.prom"),
        target("r:8001", "engines/vllm-router.prom"),
    ) as store:
        assert values(store, "requests_running") == {("m",): 11}
        assert values(store, "tokens_out_per_second") == {("m",): pytest.approx(15)}
        assert values(store, "requests_per_second") == {("m",): pytest.approx(0.15)}
        # (54 + 30) of (60 + 30) requests, 250 + 1950 of 1000 + 3000 tokens: ratios of sums
        assert values(store, "request_success_ratio") == {("m",): pytest.approx(84 / 90)}
        assert values(store, "prefix_cache_hit_ratio") == {("m",): pytest.approx(0.55)}
        assert values(store, "ttft_mean") == {("m",): pytest.approx((6 + 15) / (60 + 30))}


def test_buckets_of_two_engines_are_never_added(tmp_path: Path):
    """Edges of 0.1, 0.25 and of 0.4, 0.6: the slower engine's 0.59 s stand, with its own observations."""
    with fleet(
        tmp_path, target("a:8000", "engines/vllm-small.prom"), target("b:30000", "engines/sglang-small.prom")
    ) as store:
        [found] = answer(store, "ttft_p95")
        assert (found.value, found.bound) == (pytest.approx(0.59), "")
        assert found.observations == pytest.approx(15)


def test_a_router_alone_is_no_engine(tmp_path: Path):
    with fleet(tmp_path, target("r:8001", "engines/vllm-router.prom")) as store:
        names = names_of(store)
        assert [exporter.id for exporter in CATALOG.present(names)] == []
        for signal in CATALOG.signals.values():
            resolved = CATALOG.resolve(signal.id, names)
            if isinstance(resolved, Resolved) and "vllm" in resolved.exporters:
                assert read_signal(store, resolved, LAST_MS) == [], signal.id


def test_another_programs_http_errors_are_not_the_models(tmp_path: Path):
    with fleet(
        tmp_path, target("v0:8000", "engines/vllm-0.6.prom"), target("shop:80", "engines/generic-names.prom")
    ) as store:
        found = values(store, "request_errors_per_second", ("cause",))
        assert found == {("HTTP 5xx",): pytest.approx(0.02), ("abort",): pytest.approx(0.05)}


def test_two_models_of_one_target_do_not_break_its_http_errors(tmp_path: Path):
    text = """\
# TYPE http_requests_total counter
http_requests_total{handler="/v1/completions",method="POST",status="4xx"} 60
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="a"} 1
vllm:num_requests_running{engine="0",model_name="b"} 1
"""
    with fleet(tmp_path, written("two:8000", text)) as store:
        assert values(store, "request_errors_per_second", ("cause",)) == {("HTTP 4xx",): pytest.approx(0.1)}


def test_an_idle_engine_runs_no_adapter(tmp_path: Path):
    """The newest series names none; older ones stay on the page."""
    text = """\
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="base"} 0
# TYPE vllm:lora_requests_info gauge
vllm:lora_requests_info{max_lora="2",running_lora_adapters="law",waiting_lora_adapters=""} 1795000010
vllm:lora_requests_info{max_lora="2",running_lora_adapters="",waiting_lora_adapters=""} 1795000020
"""
    with fleet(tmp_path, written("idle:8000", text)) as store:
        assert values(store, "lora_adapters_running", ("model",)) == {("base",): 0}
        assert values(store, "lora_requests_running") == {}


ALL_FAIL = {
    "vllm": 'vllm:request_success_total{finished_reason="error",model_name="m"}',
    "trtllm_serve": 'trtllm_request_success_total{finished_reason="cancelled",model_name="m"}',
    "ray_serve": 'ray_serve_num_http_requests_total{application="m",route="/v1",status_code="503"}',
    "nim": 'request_finish_total{finished_reason="abort",model_name="m"}',
}


@pytest.mark.parametrize("exporter", ALL_FAIL)
def test_where_every_request_fails_success_is_none_and_not_unknown(tmp_path: Path, exporter: str):
    """Engines show the counter of what went well only once something did."""
    name = ALL_FAIL[exporter].split("{")[0]
    text = f"# TYPE {name} counter\n{ALL_FAIL[exporter]} 60\n"
    if exporter == "nim":
        text += 'num_request_max{model_name="m"} 8\n# TYPE request_success_total counter\n'
        text += 'request_success_total{model_name="other"} 0\n'
    with fleet(tmp_path, written("down:8000", text)) as store:
        resolved = CATALOG.resolve("request_success_ratio", names_of(store))
        assert isinstance(resolved, Resolved)
        assert resolved.exporters == (exporter,)
        assert values(store, "request_success_ratio")[("m",)] == 0


CACHED = {
    "sglang": ("sglang:prompt_tokens_total", "sglang:cached_tokens_total"),
    "trtllm_serve": ("trtllm_prompt_tokens_total", "trtllm_prompt_cached_tokens_total"),
}


@pytest.mark.parametrize("exporter", CACHED)
def test_a_replica_without_a_cache_hit_has_a_ratio_of_none(tmp_path: Path, exporter: str):
    """It does not show the counter of hits that its neighbour shows."""
    asked, hits = CACHED[exporter]
    cold = f'# TYPE {asked} counter\n{asked}{{model_name="m"}} 600\n'
    warm = f'{cold}# TYPE {hits} counter\n{hits}{{model_name="m"}} 300\n'
    with fleet(tmp_path, written("cold:1", cold), written("warm:1", warm)) as store:
        found = values(store, "prefix_cache_hit_ratio", ("instance",))
        assert found == {("cold:1",): 0, ("warm:1",): pytest.approx(0.5)}
        assert values(store, "prefix_cache_hit_ratio") == {("m",): pytest.approx(0.25)}


def test_tgi_without_a_single_success(tmp_path: Path):
    text = """\
# TYPE tgi_request_count counter
tgi_request_count 60
# TYPE tgi_request_failure counter
tgi_request_failure{err="generation"} 60
"""
    with fleet(tmp_path, written("tgi:80", text)) as store:
        assert values(store, "request_success_ratio") == {(): 0}
        assert values(store, "requests_per_second") == {(): pytest.approx(0.1)}


ENABLED = {
    ("vllm", "corrupted_requests_per_second"): "VLLM_COMPUTE_NANS_IN_LOGITS=1",
    ("vllm", "model_flops_per_second"): "--enable-mfu-metrics",
    ("vllm", "lora_requests_running"): "--enable-lora",
    ("vllm", "engine_healthy"): "--enable-fault-tolerance",
    ("vllm", "rate_limited_ratio"): "--max-num-queued-reqs",
    ("sglang", "model_bytes_per_second"): "--enable-mfu-metrics",
    ("sglang", "spec_decode_acceptance_ratio"): "--speculative-algorithm",
    ("trtllm_serve", "kv_cache_usage"): "enable_iter_perf_stats: true",
    ("triton", "ttft_p95"): "--metrics-config histogram_latencies=true",
    ("triton", "e2e_p99"): "--metrics-config summary_latencies=true",
}


@pytest.mark.parametrize(("exporter", "signal"), ENABLED)
def test_what_to_switch_on_is_said(exporter: str, signal: str):
    present = frozenset(CATALOG.exporters[exporter].detect)
    found = CATALOG.resolve(signal, present)
    assert isinstance(found, Missing)
    texts = [way.text for way in found.ways if way.exporter == exporter and way.present]
    assert any(ENABLED[exporter, signal] in text for text in texts), texts


def test_tgi_never_answers_a_time_to_first_token():
    names = frozenset(
        {"tgi_request_count", "tgi_request_queue_duration_bucket", "tgi_batch_forward_duration_bucket"}
    )
    found = CATALOG.resolve("ttft_p95", names)
    assert isinstance(found, Missing)
    assert "tgi" not in {way.exporter for way in found.ways}


class Form(NamedTuple):
    """A variant, without what tells where it stands."""

    texts: tuple[str, ...]
    needs: frozenset[str]
    rest: tuple[object, ...]


def forms(exporter: str, signal: str, old: str = "", new: str = "") -> list[Form]:
    """A signal's variants, with other names."""

    def of(variant: Variant) -> Form:
        texts = tuple(" ".join(text.replace(old, new).split()) for text in variant.texts)
        needs = frozenset(name.replace(old, new) for name in variant.needs)
        rest = (variant.form, variant.scale, variant.within, variant.labels.get("cause"))
        return Form(texts, needs, rest)

    return [of(variant) for variant in CATALOG.exporters[exporter].variants.get(signal, ())]


def test_the_underscored_sglang_is_a_copy():
    original, copy = CATALOG.exporters["sglang"], CATALOG.exporters["sglang_underscored"]
    assert original.variants.keys() == copy.variants.keys()
    for signal in original.variants:
        assert forms("sglang", signal, "sglang:", "sglang_") == forms("sglang_underscored", signal)


# How vllm.yaml takes the router's series out; it does not run under Ray.
ROUTER = re.compile(r' unless \w+{model_name="", model=""}|{model_name!=""}')


def test_vllm_under_ray_is_a_copy():
    for signal in CATALOG.exporters["vllm_ray"].variants:
        originals = [
            form._replace(texts=tuple(ROUTER.sub("", text) for text in form.texts))
            for form in forms("vllm", signal, "vllm:", "ray_vllm_")
        ]
        assert [form for form in forms("vllm_ray", signal) if form not in originals] == [], signal


@pytest.mark.server
def test_prometheus_answers_the_same_for_a_fleet_of_all_engines(tmp_path: Path):
    """By the labels that signals are shown by: joins, matching and label functions mean the same to both."""
    targets = [target(instance, name) for instance, name in FLEET.items()]
    config = tmp_path / "prometheus.yml"
    config.write_text("global: {scrape_interval: 1h}\n")
    with (
        fleet(tmp_path, *targets) as store,
        prometheus(config, tmp_path, "--web.enable-remote-write-receiver") as server,
    ):
        push(server.url, [series for scrapes in targets for series in as_series(scrapes)])
        compared = 0
        for found in CATALOG.resolve_all(names_of(store)):
            if isinstance(found, Missing):
                continue
            ours = {
                tuple(row): value
                for answered in [instant(store, found.promql, LAST_MS)]
                for row, value in zip(answered.table.rows(), answered.values[:, 0].tolist(), strict=True)
            }
            result = server.api("query", query=found.promql, time=str(LAST_MS / 1000))["result"]
            theirs = {tuple(sorted(row["metric"].items())): float(row["value"][1]) for row in result}
            assert {tuple(sorted(labels)) for labels in ours} == theirs.keys(), found.signal.id
            for labels, value in ours.items():
                assert value == pytest.approx(theirs[tuple(sorted(labels))], rel=1e-9, nan_ok=True), (
                    found.signal.id
                )
                compared += not math.isnan(value)
        assert compared > 100


def as_series(scrapes: list[Scrape]) -> Iterator[Samples]:
    times = np.array([scrape.at_ms for scrape in scrapes], dtype=np.int64)
    for index, labels in enumerate(scrapes[0].labels):
        yield Samples(labels, times, np.array([scrape.values[index] for scrape in scrapes], dtype=np.float64))
