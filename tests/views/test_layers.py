"""The four layer pages: signals of whatever exporter there is, as tiles, charts and the fleet."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from app.context import PageContext, ProcessBook, current, install, kept_samples
from app.summaries.layer_panels import LAYER_PAGES
from db.catalog.load import load_catalog
from db.labels import labels_from
from db.records import DenseAppend
from tests.stores import Target, gpu_samples, report
from tests.views.pages import MAIN, NOW, Site, frame, markup, tiles, words

PAGES = sorted(LAYER_PAGES)
HOSTILE = '<script>alert(1)</script>**bold** [x](javascript:alert(1)) `x`"} or vector(1) #' + "a" * 5_000
STEP = 15_000
START = NOW - 1_200_000

NOVA = """\
exporters:
  nova:
    title: Nova
    detect: [nova_running]
    install: "Install Nova."
    labels: {model: served}
    signals:
      requests_running: {value: nova_running}
      requests_per_second: {value: "rate(nova_ended_total[$window])"}
      request_success_ratio: {ratio: ["rate(nova_good_total[$window])", "rate(nova_ended_total[$window])"]}
      e2e: {histogram: nova_request_seconds}
      kv_cache_usage: {value: nova_kv, enable: "start Nova with --kv-metrics"}
"""
Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def write(site: Site, samples: Samples, *, until: int = NOW, target: str = "nova") -> None:
    """For twenty minutes every 15 s; `_total` and `_bucket` grow by their value a second."""
    labels = [
        labels_from({**dict(pairs), "job": target, "instance": f"{target}:1"}, metric)
        for metric, pairs in samples
    ]
    appends = []
    for step, at_ms in enumerate(range(START, until + 1, STEP)):
        values = [
            value * (step * STEP / 1000 if metric.endswith(("_bucket", "_total")) else 1)
            for (metric, _), value in samples.items()
        ]
        appends.append(DenseAppend(target, labels if step == 0 else [], at_ms, np.array(values)))
    site.store.write(appends)
    site.store.write([], [report(target, f"{target}:1", until, interval_seconds=STEP / 1000)])


def nova(site: Site, tmp_path: Path, *models: str, until: int = NOW, per_second: float = 10.0) -> None:
    path = tmp_path / "nova.yaml"
    path.write_text(NOVA)
    catalog = load_catalog([path])
    install(replace(current(), catalog=lambda: catalog))
    samples: Samples = {}
    for number, model in enumerate(models or ("m",)):
        served = (("served", model),)
        samples[("nova_running", served)] = 7.0 + number
        samples[("nova_ended_total", served)] = per_second
        samples[("nova_good_total", served)] = per_second * 0.9
        samples[("nova_request_seconds_bucket", (*served, ("le", "0.3")))] = per_second
        samples[("nova_request_seconds_bucket", (*served, ("le", "1")))] = per_second
        samples[("nova_request_seconds_bucket", (*served, ("le", "+Inf")))] = per_second
    write(site, samples, until=until)


def fleet(site: Site, nodes: int, gpus: int) -> None:
    targets = [Target("dcgm", f"node{n}:9400") for n in range(nodes)]
    for at_ms in range(NOW - 60_000, NOW + 1, STEP):
        seconds = (at_ms - START) / 1000
        site.store.write(
            [one.append(at_ms, gpu_samples(seconds, gpus, host=f"node{n}")) for n, one in enumerate(targets)]
        )
    site.store.write([], [report("dcgm", one.instance, NOW, interval_seconds=15.0) for one in targets])


def opened(name: str, **query: str) -> AppTest:
    """As a link opens it: no other page was there before."""
    test = AppTest.from_file(MAIN, default_timeout=30)
    for key, value in query.items():
        test.query_params[key] = value
    return test.switch_page(f"views/{name}.py").run()


def figures(page) -> dict[str, dict]:
    """Panel key -> its figure."""
    return {
        chart.proto.id.rpartition("-")[2].removeprefix("panel_"): json.loads(chart.proto.spec)
        for chart in page.get("plotly_chart")
    }


@pytest.mark.parametrize("name", PAGES)
def test_before_anything_is_collected_it_says_what_to_do(site: Site, name: str):
    page = opened(name)
    assert not page.exception
    assert "nothing has been collected yet" in words(page)
    assert not page.metric
    assert not page.get("plotly_chart")


@pytest.mark.parametrize("name", PAGES)
def test_a_store_that_cannot_be_opened_is_unreachable(tmp_path: Path, name: str):
    (tmp_path / "samples.db").write_bytes(b"this is no database " * 100)
    with_book = ProcessBook(tmp_path / "state.db")
    install(PageContext(kept_samples(tmp_path / "samples.db"), with_book.read, lambda: NOW))
    page = opened(name)
    with_book.close()
    assert not page.exception
    assert words(page).count("cannot be read") == 1
    assert not page.metric


def test_an_engine_of_a_users_file_is_drawn(site: Site, tmp_path: Path):
    """Adding a serving engine is YAML alone."""
    nova(site, tmp_path)
    page = opened("application")
    assert not page.exception
    shown = tiles(page)
    assert shown["Requests"] == ["10 /s"]
    assert shown["Success"] == ["90.0 %"]
    assert [trace["name"] for trace in figures(page)["queue"]["data"]] == ["m running"]


def test_a_tile_tells_the_change_against_the_same_time_before(site: Site, tmp_path: Path):
    nova(site, tmp_path)
    page = opened("application", range="5m")
    metric = next(tile for tile in page.metric if tile.label == "Success")
    assert metric.delta == "0 pt"
    assert "the change against 5 min before" in words(page)


def test_a_signal_without_a_source_says_what_to_switch_on(site: Site, tmp_path: Path):
    nova(site, tmp_path)
    page = opened("model")
    assert tiles(page)["KV cache, fullest"] == ["No source"]
    assert "Nova: start Nova with --kv-metrics" in words(page)
    assert "No source" in words(page)


def test_a_quantile_that_is_never_more_than_a_bound_says_so_and_is_dashed(site: Site, tmp_path: Path):
    nova(site, tmp_path)
    page = opened("application")
    assert tiles(page)["Request p95"] == ["< 300.0 ms"]
    assert "m p95 is below 300.0 ms, the first bucket's edge; 3,000 observations in 5 min" in words(page)
    assert {trace["line"]["dash"] for trace in figures(page)["e2e"]["data"]} == {"dash"}


def test_an_idle_engine_has_no_traffic(site: Site, tmp_path: Path):
    nova(site, tmp_path, per_second=0.0)
    shown = tiles(opened("application"))
    assert shown["Request p95"] == ["No traffic"]
    assert shown["Success"] == ["No traffic"]
    assert shown["Requests"] == ["0 /s"]


def test_what_stopped_is_shown_as_it_last_was_under_a_sentence_that_says_so(site: Site, tmp_path: Path):
    nova(site, tmp_path)
    site.now_ms = NOW + 1_800_000
    page = opened("application")
    assert not page.exception
    assert "no new data for 30 min" in words(page)
    assert tiles(page)["Requests"] == ["10 /s"]


def test_an_engine_that_alone_stopped_is_stale(site: Site, tmp_path: Path):
    nova(site, tmp_path, until=NOW - 600_000)
    fleet(site, 1, 1)
    page = opened("application")
    assert "no new data" not in words(page)
    assert tiles(page)["Requests"] == ["Stale"]


def test_a_page_is_narrowed_by_its_link(site: Site, tmp_path: Path):
    nova(site, tmp_path, "first", "second")
    everything = figures(opened("application"))["queue"]["data"]
    assert [trace["name"] for trace in everything] == ["second running", "first running"]
    page = opened("application", model="first", range="1h", live="false")
    assert page.selectbox[0].value == "first"
    assert page.get("segmented_control")[0].value == "1h"
    assert "Paused" in words(page)
    # Of one model the lines are its replicas.
    assert [trace["name"] for trace in figures(page)["queue"]["data"]] == ["first · nova:1 running"]
    assert tiles(page)["Requests"] == ["10 /s"]


def test_a_link_to_a_model_that_reports_nothing_does_not_show_the_others(site: Site, tmp_path: Path):
    nova(site, tmp_path)
    page = opened("application", model=HOSTILE)
    assert not page.exception
    assert "no model of this name reported" in words(page)
    assert "script" not in markup(page)
    assert tiles(page)["Requests"] == ["No data"]
    assert not page.get("plotly_chart")


@pytest.mark.parametrize("name", PAGES)
def test_an_unknown_value_in_a_link_is_ignored(site: Site, name: str):
    fleet(site, 1, 1)
    page = opened(name, range="7y", heat="<b>", live="perhaps", band_hosts="?")
    assert not page.exception
    assert page.get("segmented_control")[0].value == "15m"


def test_labels_are_shown_letter_by_letter(site: Site, tmp_path: Path):
    nova(site, tmp_path, HOSTILE, "m")
    for name in ("application", "model"):
        page = opened(name, band_engine="true", band_phases="true")
        assert not page.exception
        for marker in ("script", "javascript", "aaaaaa"):
            assert marker not in markup(page)
        for figure in figures(page).values():
            assert all("<" not in trace["name"] for trace in figure["data"])
    assert "<script>" in page.selectbox[0].options[1]


def test_hostile_nodes_are_cells_and_escaped_rows(site: Site):
    target = Target("dcgm", "x:9400")
    samples = {
        (name, tuple((key, HOSTILE if key == "Hostname" else text) for key, text in labels)): value
        for (name, labels), value in gpu_samples(0, 2, host="x").items()
    }
    for at_ms in (NOW - STEP, NOW):
        site.store.write([target.append(at_ms, samples)], [report("dcgm", "x:9400", NOW)])
    page = opened("infrastructure")
    assert not page.exception
    assert "script" not in markup(page)
    assert frame(page, "node")["node"][0].startswith("<script>")
    (heat,) = figures(page)["fleet_heat"]["data"]
    assert len(set(heat["y"])) == 2
    assert not any("<" in row for row in heat["y"])


def test_one_gpu(site: Site):
    fleet(site, 1, 1)
    page = opened("infrastructure")
    assert not page.exception
    table = frame(page, "utilisation")
    assert table["node"].tolist() == ["node0"]
    samples = gpu_samples((NOW - START) / 1000, 1, host="node0")
    [watts] = [value for (name, _), value in samples.items() if name == "DCGM_FI_DEV_POWER_USAGE"]
    # Tiles and tables are of the tick's beginning.
    assert table["power"][0] == pytest.approx(watts, rel=0.2)
    assert table["memory"][0] == pytest.approx(90_000 / 143_000 * 100, abs=0.1)
    assert "1 GPU" in words(page)


def test_hundreds_of_gpus_are_one_matrix_and_one_table(site: Site):
    fleet(site, 64, 8)
    page = opened("infrastructure")
    assert not page.exception
    assert len(frame(page, "utilisation")) == 512
    assert "512 GPUs · a row is the mean of up to 2 neighbours" in words(page)
    (heat,) = figures(page)["fleet_heat"]["data"]
    assert len(heat["y"]) == 256
    assert heat["y"][:2] == ["node0 GPU 0 to node0 GPU 1", "node0 GPU 2 to node0 GPU 3"]
    assert "12 of 64 lines, the highest now" in words(page)


def test_a_node_narrows_the_fleet_and_its_charts_to_gpus(site: Site):
    fleet(site, 3, 4)
    page = opened("infrastructure", node="node1", heat="Power")
    assert frame(page, "utilisation")["node"].tolist() == ["node1"] * 4
    drawn = figures(page)
    assert drawn["fleet_heat"]["data"][0]["y"] == [f"node1 GPU {gpu}" for gpu in range(4)]
    assert {trace["name"] for trace in drawn["gpu_power_watts"]["data"]} == {
        f"node1 GPU {gpu}" for gpu in range(4)
    }
    power = sum(frame(page, "utilisation")["power"])
    assert tiles(page)["GPU power"] == [f"{power:,.0f} W"] or math.isclose(
        float(tiles(page)["GPU power"][0].split()[0].replace(",", "")), power, rel_tol=0.01
    )


def test_a_closed_band_is_not_read(site: Site):
    fleet(site, 1, 1)
    assert "ecc" not in figures(opened("infrastructure"))
    page = opened("infrastructure", band_faults="true")
    assert "PCIe replays" in words(page)


def test_a_chart_has_a_takeaway_and_nothing_new_redraws_nothing(site: Site, tmp_path: Path):
    nova(site, tmp_path)
    page = opened("application")
    (chart,) = (one for one in page.get("plotly_chart") if "panel_queue" in one.proto.id)
    assert chart.proto.alt == "Requests running and waiting: m running last 7, between 7 and 7"
    site.now_ms += 1_000
    page.run()
    (again,) = (one for one in page.get("plotly_chart") if "panel_queue" in one.proto.id)
    assert again.proto.spec == chart.proto.spec
