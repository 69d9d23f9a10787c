import json
from pathlib import Path

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from app.context import PageContext, ProcessBook, install, kept_samples
from tests.stores import (
    GIB,
    Box,
    Target,
    gpu_samples,
    many_targets,
    report,
    scrape_samples,
)
from tests.views.pages import MAIN, NOW, frame, markup, tiles, words
from tests.views.pages import site as opened_site

HOSTILE = [
    "<script>alert(1)</script>",
    "**bold** [link](http://evil.example) :red[x] :material/home: $x^2$",
    "](javascript:alert(1))",
    "a" * 20_000,
    "line\nbreak \x1b[31m \u202e",
]


def test_before_anything_is_collected_it_says_what_to_do(site):
    page = site.page()
    assert not page.exception
    assert "nothing has been collected yet" in words(page)
    assert "strata up" in words(page)
    assert "Collectors: ○ never started on this data folder" in words(page)
    assert not page.metric


def test_a_source_that_waits_is_still_empty(site):
    site.store.write([], [report("node", "a:9100", NOW, state="waiting", last_success_ms=None)])
    assert "nothing has been collected yet" in words(site.page())


def test_live_tiles_carry_what_the_store_holds(site):
    Box(site.store).fill(NOW - 120_000, NOW)
    page = site.page()
    assert not page.exception
    shown = tiles(page)
    assert shown["Memory used"] == ["12.0 GiB", "87.9 GiB", "88.9 GiB"]
    assert shown["Network in"] == ["1.19 MiB/s"]
    assert shown["Disk read"] == ["2.86 MiB/s"]
    assert shown["Pressure"] == ["3.1 %"]
    assert shown["Fullest filesystem"] == ["79.0 %"]
    samples = gpu_samples(120, 2, host="box-1")
    powers = [value for (name, _), value in samples.items() if name == "DCGM_FI_DEV_POWER_USAGE"]
    assert shown["Power"] == [f"{power:.0f} W" for power in powers]
    assert shown["Running"] == ["17"]
    assert shown["Tokens/s"] == ["1,834"]
    assert "newest sample 0 s ago · 1 host · 2 GPUs · 1 of 1 target up" in words(page)


def test_an_engine_that_only_a_users_file_knows_has_its_numbers_on_its_card(site):
    nova = Target("llm", "127.0.0.1:7000")
    for at in range(NOW - 60_000, NOW + 1, 5_000):
        tokens = {("nova_tokens_total", (("served", "m"),)): 30.0 * (at - NOW) / 1000 + 5_000}
        samples = {**scrape_samples(0.1, 5), ("nova_busy", (("served", "m"),)): 3.0, **tokens}
        site.store.write([nova.append(at, samples)], [report("llm", "127.0.0.1:7000", at)])
    assert "Running" not in tiles(site.page())
    file = site.folder / "nova.yaml"
    file.write_text(NOVA)
    site.signal_files.append(file)
    st.cache_data.clear()
    page = site.page()
    assert not page.exception
    assert tiles(page)["Running"] == ["3"]
    assert tiles(page)["Tokens/s"] == ["30"]
    assert "llm · 127.0.0.1:7000 · Nova <b>**1**</b>" in [text.value for text in page.text]
    assert "Nova" not in markup(page)


NOVA = """
exporters:
  nova:
    title: Nova <b>**1**</b>
    detect: [nova_busy]
    labels: {model: served}
    signals:
      requests_running: {value: nova_busy}
      tokens_out_per_second: {value: "rate(nova_tokens_total[$window])"}
"""

RENAMED = {
    "DCGM_FI_DEV_FB_USED": ("DCGM_FI_DEV_FB_USED_BYTES", 2.0**20),
    "DCGM_FI_DEV_FB_FREE": ("DCGM_FI_DEV_FB_FREE_BYTES", 2.0**20),
    "DCGM_FI_DEV_GPU_UTIL": ("DCGM_FI_DEV_GPU_UTIL_RATIO", 0.01),
    "DCGM_FI_DEV_POWER_USAGE": ("DCGM_FI_DEV_BOARD_POWER_WATTS", 1.0),
    "DCGM_FI_DEV_GPU_TEMP": ("DCGM_FI_DEV_GPU_TEMP_CELSIUS", 1.0),
}


def test_a_gpu_under_its_exporters_new_names_is_the_same_card(tmp_path):
    pages = []
    for renamed in (False, True):
        folder = tmp_path / str(renamed)
        folder.mkdir()
        with opened_site(folder) as site:
            target = Target("dcgm", "gpu-1:9400")
            for at in range(NOW - 60_000, NOW + 1, 5_000):
                samples = gpu_samples((at - NOW) / 1000, 1, host="gpu-1")
                if renamed:
                    samples = {
                        (RENAMED[name][0], labels): value * RENAMED[name][1]
                        for (name, labels), value in samples.items()
                    }
                site.store.write([target.append(at, samples)], [report("dcgm", "gpu-1:9400", at)])
            page = site.page()
            assert not page.exception
            notes = [metric.proto.delta_description for metric in page.metric]
            pages.append((tiles(page), notes, [element.value for element in page.text]))
    assert pages[0] == pages[1]
    assert pages[0][0]["Memory used"] == ["87.9 GiB"]
    assert pages[0][0]["Utilisation"] != ["—"]


def test_a_signal_that_cannot_be_read_does_not_take_the_page_with_it(site):
    Box(site.store).fill(NOW - 60_000, NOW)
    file = site.folder / "wrong.yaml"
    file.write_text(NOVA.replace("[nova_busy]", "[vllm:num_requests_running]").replace("nova_busy", WRONG))
    site.signal_files.append(file)
    page = site.page()
    assert not page.exception
    assert "some signals cannot be read" in words(page)
    assert "requests_running: " in words(page)
    assert tiles(page)["Tokens/s"] == ["1,834"]
    assert tiles(page)["Memory used"] == ["12.0 GiB", "87.9 GiB", "88.9 GiB"]


# Two processors of one instance: a pair that PromQL refuses.
WRONG = "node_load1 * on (instance) node_cpu_seconds_total"


def test_a_rounded_tile_has_its_exact_value_in_the_tooltip(site):
    Box(site.store).fill(NOW - 120_000, NOW)
    memory = next(tile for tile in site.page().metric if tile.label == "Memory used")
    assert memory.help == f"exactly {12 * GIB:,} bytes used"


def test_rates_appear_with_the_second_sample(site):
    box = Box(site.store)
    box.fill(NOW - 5_000, NOW - 5_000)
    assert tiles(site.page())["Network in"] == ["—"]
    box.write(NOW, NOW - 5_000)
    assert tiles(site.page())["Network in"] == ["1.19 MiB/s"]


def test_what_stopped_is_shown_as_it_last_was_under_a_sentence_that_says_so(site):
    Box(site.store).fill(NOW - 120_000, NOW)
    site.book.beat(pid=7, started_ms=NOW - 120_000, now_ms=NOW)
    site.now_ms = NOW + 3_600_000
    page = site.page()
    assert not page.exception
    assert "no new data for 1 h" in words(page)
    assert "Web: ▲ Not answering" in words(page)
    assert ":orange[▲] Stale" in words(page)
    assert tiles(page)["Network in"] == ["1.19 MiB/s"]


def test_a_store_that_cannot_be_opened_is_unreachable(tmp_path: Path):
    (tmp_path / "samples.db").write_bytes(b"this is no database " * 100)
    samples, book = kept_samples(tmp_path / "samples.db"), ProcessBook(tmp_path / "state.db")
    install(PageContext(samples, book.read, lambda: NOW))
    page = AppTest.from_file(MAIN, default_timeout=30).run()
    book.close()
    assert not page.exception
    assert "cannot be read" in words(page)
    assert "samples.db" in words(page)
    assert "nothing has been collected" not in words(page)


def test_a_machine_without_a_driver_is_calm_about_it(site):
    Box(site.store, gpus=0).fill(NOW - 30_000, NOW)
    page = site.page()
    assert "No NVIDIA driver on this machine." in words(page)
    assert not page.error
    assert not page.warning


@pytest.mark.parametrize("hostile", HOSTILE)
def test_labels_are_shown_letter_by_letter(site, hostile):
    target = Target(hostile, hostile)
    gpus = {
        (
            name,
            tuple((key, hostile if key in ("modelName", "Hostname") else text) for key, text in labels),
        ): value
        for (name, labels), value in gpu_samples(0, 1, host="x").items()
    }
    samples = {**scrape_samples(0.1, 5), ("node_load1", ()): 1.0, **gpus}
    site.store.write(
        [target.append(NOW, samples)],
        [report(hostile, hostile, NOW, error=hostile, state="down", note=hostile)],
    )
    page = site.page()
    assert not page.exception
    for marker in ("script", "evil", "javascript", "aaaaaa", "\x1b"):
        assert marker not in markup(page)
    assert hostile.split()[0][:20] in "\n".join(element.value for element in page.text)


def test_a_thousand_targets_become_one_table_with_problems_first(site):
    many_targets(site.store, 1_000, NOW, down=(3, 77, 500))
    page = site.page()
    assert not page.exception
    assert ":red[■] 3 of 1,000 targets down" in words(page)
    table = frame(page, "instance")
    assert len(table) == 1_000
    assert table["state"].head(4).tolist() == ["■ Down", "■ Down", "■ Down", "● Up"]
    assert table["error"].head(1).tolist() == ["connection refused"]


def test_512_gpus_become_totals_and_a_table(site):
    devices = [Target("dcgm", f"gpu-{n:02d}:9400") for n in range(64)]
    at = NOW - 5_000
    site.store.write(
        [one.append(at, gpu_samples(n, 8, host=one.instance)) for n, one in enumerate(devices)],
        [report("dcgm", devices[0].instance, at)],
    )
    page = site.page()
    assert not page.exception
    assert len(frame(page, "utilisation")) == 512
    used = sum(90_000 + 1000 * gpu for gpu in range(8)) * 64 * 2**20
    (memory,) = (tile for tile in page.metric if tile.label == "Memory used")
    assert memory.help == f"exactly {used:,} bytes used"


def test_a_link_opens_the_same_view(site):
    Box(site.store).fill(NOW - 120_000, NOW)
    page = site.page(range="1h", live="false", history="true", chart="Network")
    assert page.get("segmented_control")[0].value == "1h"
    assert page.toggle[0].value is False
    assert page.get("pills")[0].value == "Network"
    assert "Paused" in words(page)
    names = [trace["name"] for trace in figure(page)["data"]]
    assert names == ["box-1 in", "box-1 out"]


def test_an_unknown_value_in_a_link_is_ignored(site):
    Box(site.store).fill(NOW - 30_000, NOW)
    page = site.page(range="7y", history="true", chart="<script>")
    assert not page.exception
    assert page.get("segmented_control")[0].value == "15m"


def test_paused_stays_at_its_moment(site):
    box = Box(site.store)
    box.fill(NOW - 60_000, NOW)
    page = site.page(live="false")
    before = tiles(page)
    box.fill(NOW + 5_000, NOW + 60_000)
    site.now_ms = NOW + 60_000
    page.run()
    assert tiles(page) == before
    page.toggle[0].set_value(True).run()
    assert tiles(page) != before


def test_charts_cost_nothing_until_they_are_asked_for(site):
    Box(site.store).fill(NOW - 30_000, NOW)
    page = site.page()
    assert not page.get("plotly_chart")
    assert page.expander[0].label == "History"


def test_the_chart_has_a_table_twin_and_a_takeaway(site):
    Box(site.store).fill(NOW - 120_000, NOW)
    page = site.page(history="true", chart="GPU power")
    assert [trace["name"] for trace in figure(page)["data"]]
    assert "GPU power: box-1 GPU" in page.get("plotly_chart")[0].proto.alt
    assert not frame(page, "line").empty


def figure(page):
    return json.loads(page.get("plotly_chart")[0].proto.spec)
