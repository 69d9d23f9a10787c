"""The Signals page: what the catalogue makes of the metrics that are there."""

from pathlib import Path

import numpy as np
import pytest

from db.labels import labels_from
from db.records import DenseAppend
from tests.stores import Box, report
from tests.views.pages import NOW, Site, frame, markup, words

HOSTILE = '<script>alert(1)</script>**bold** `x`"} or vector(1) #'

NOVA = """\
exporters:
  nova:
    title: Nova
    detect: [nova_running]
    install: "Install Nova."
    labels: {model: served}
    signals:
      requests_running: {value: nova_running}
      e2e: {histogram: nova_request_seconds}
      kv_cache_usage: {value: nova_kv, enable: "start Nova with --kv-metrics"}
"""


def write(site: Site, samples: dict[tuple[str, tuple[tuple[str, str], ...]], float]) -> None:
    """Steady over the last six minutes; `_bucket` grows by its value a second."""
    labels = [
        labels_from({**dict(pairs), "job": "nova", "instance": "a:1"}, metric) for metric, pairs in samples
    ]
    for step in range(25):
        at_ms = NOW - 360_000 + 15_000 * step
        values = [
            value * (step * 15 if metric.endswith(("_bucket", "_count", "_sum")) else 1)
            for (metric, _), value in samples.items()
        ]
        site.store.write([DenseAppend("nova", labels if step == 0 else [], at_ms, np.array(values))])


def nova(site: Site, tmp_path: Path, model: str = "m") -> None:
    path = tmp_path / "nova.yaml"
    path.write_text(NOVA)
    site.signal_files = [path]
    write(
        site,
        {
            ("nova_running", (("served", model),)): 7.0,
            ("nova_request_seconds_bucket", (("served", model), ("le", "0.3"))): 9.0,
            ("nova_request_seconds_bucket", (("served", model), ("le", "1"))): 10.0,
            ("nova_request_seconds_bucket", (("served", model), ("le", "+Inf"))): 10.0,
        },
    )


def test_an_engine_of_a_users_file_is_on_the_page(site: Site, tmp_path: Path):
    """Adding a serving engine is YAML alone."""
    nova(site, tmp_path)
    page = site.page("signals")
    assert not page.exception
    rows = frame(page, "now").set_index("id")
    assert rows.loc["requests_running", "now"] == "7 requests"
    assert rows.loc["requests_running", "exporters"] == "Nova"


def test_a_quantile_in_the_first_bucket_is_shown_as_a_bound(site: Site, tmp_path: Path):
    nova(site, tmp_path)
    rows = frame(site.page("signals"), "now").set_index("id")
    assert rows.loc["e2e_p50", "now"] == "< 300.0 ms"
    assert rows.loc["e2e_p95", "now"] == "650.0 ms"


def test_what_is_missing_says_what_to_switch_on(site: Site, tmp_path: Path):
    nova(site, tmp_path)
    page = site.page("signals", layer="Model")
    assert not page.exception
    missing = frame(page, "way").set_index("id")
    assert missing.loc["kv_cache_usage", "way"] == "Nova: start Nova with --kv-metrics"


def test_without_any_metric_every_signal_says_what_to_install(site: Site):
    page = site.page("signals", layer="Infrastructure")
    assert not page.exception
    assert "**0** of" in words(page)
    ways = frame(page, "way").set_index("id")["way"]
    assert "dcgm-exporter" in ways["gpu_power_watts"]
    assert (ways != "").all()


@pytest.mark.parametrize(
    "layer", ["Client", "Application", "Model", "Infrastructure", "Training", "Cost", "nonsense"]
)
def test_every_layer_is_drawn_for_a_box(site: Site, layer: str):
    Box(site.store, gpus=2).fill(NOW - 400_000, NOW)
    assert not site.page("signals", layer=layer).exception


def test_labels_are_never_markup_and_never_promql(site: Site, tmp_path: Path):
    nova(site, tmp_path, HOSTILE)
    page = site.page("signals")
    assert not page.exception
    assert HOSTILE not in markup(page)
    assert frame(page, "now").set_index("id").loc["requests_running", "now"] == "7 requests"


def test_the_store_unreachable(site: Site):
    site.store.close()
    for path in Path(site.folder).glob("samples.db*"):
        path.unlink()
    (Path(site.folder) / "samples.db").write_bytes(b"no database" * 1000)
    page = site.page("signals")
    assert not page.exception
    assert "cannot be read" in words(page)


def test_sources_says_what_a_target_lacks_and_what_adds_it(site: Site, tmp_path: Path):
    nova(site, tmp_path)
    site.store.write([], [report("nova", "a:1", NOW)])
    page = site.page("sources")
    assert not page.exception
    [row] = frame(page, "mend").to_dict("records")
    assert row == {
        "targets": "nova a:1",
        "exporter": "Nova: 2 of 3",
        "missing": "KV-cache use",
        "mend": "start Nova with --kv-metrics",
    }
