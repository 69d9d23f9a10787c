"""The catalogue's files: the built-in ones are sound, a user's add to them, wrong ones are named by line."""

import re
from pathlib import Path

import pytest

from db.catalog.document import CatalogError
from db.catalog.load import load_catalog
from db.catalog.signal import Missing, Resolved

ENGINE = """\
exporters:
  nova:
    title: Nova
    detect: [nova_running]
    install: "Install Nova."
    labels: {model: served}
    signals:
      requests_running: {value: nova_running}
      ttft: {histogram: nova_first_token_ms, scale: 0.001}
"""


def file(folder: Path, text: str) -> Path:
    path = folder / "mine.yaml"
    path.write_text(text)
    return path


def test_the_built_in_catalogue_is_sound():
    catalog = load_catalog()
    assert len(catalog.signals) > 150
    for signal in catalog.signals.values():
        assert set(signal.by) <= set(signal.entity)
        assert signal.means.endswith(".")


def test_every_built_in_exporter_says_what_to_do():
    for exporter in load_catalog().exporters.values():
        assert exporter.install.endswith((".", "`")), exporter.id
        assert exporter.detect, exporter.id


def test_a_distribution_gives_its_statistics():
    signals = load_catalog().signals
    assert "ttft" not in signals
    assert [signals[f"ttft_{name}"].quantile for name in ("p50", "p95", "p99", "mean")] == [
        0.5,
        0.95,
        0.99,
        None,
    ]


def test_an_engine_is_added_by_a_file(tmp_path: Path):
    catalog = load_catalog([file(tmp_path, ENGINE)])
    found = catalog.resolve("ttft_p95", {"nova_first_token_ms_bucket"})
    assert isinstance(found, Resolved)
    assert found.exporters == ("nova",)
    assert found.promql == (
        "(histogram_quantile(0.95, sum by (model, le) (label_replace("
        'rate(nova_first_token_ms_bucket[5m]), "model", "$1", "served", "(.+)")))) * 0.001'
    )
    assert "nova" not in load_catalog().exporters


def test_a_signal_is_added_and_one_is_replaced(tmp_path: Path):
    text = """\
signals:
  moon_phase:
    {layer: cost, entity: cluster, unit: ratio, good: neither, by: [], combine: max,
     title: Moon, means: "The moon."}
  requests_running:
    {layer: client, entity: cluster, unit: requests, good: low, by: [], combine: max,
     title: Other, means: "Other."}
exporters:
  sky: {title: Sky, signals: {moon_phase: {value: moon}}}
"""
    catalog = load_catalog([file(tmp_path, text)])
    assert catalog.signals["moon_phase"].title == "Moon"
    assert catalog.signals["requests_running"].by == ()
    found = catalog.resolve("moon_phase", {"moon"})
    assert isinstance(found, Resolved)
    assert found.promql == "max(moon)"


def test_a_users_variants_replace_those_of_the_same_exporter(tmp_path: Path):
    first = file(tmp_path, ENGINE)
    second = tmp_path / "second.yaml"
    second.write_text("exporters: {nova: {title: Nova 2, signals: {requests_running: {value: nova_active}}}}")
    catalog = load_catalog([first, second])
    assert isinstance(catalog.resolve("requests_running", {"nova_running"}), Missing)
    assert isinstance(catalog.resolve("requests_running", {"nova_active"}), Resolved)
    assert isinstance(catalog.resolve("ttft_p95", {"nova_first_token_ms_bucket"}), Resolved)
    assert catalog.exporters["nova"].install == "Install Nova."


def test_a_users_labels_hold_for_all_of_the_exporters_variants(tmp_path: Path):
    first = file(tmp_path, ENGINE)
    second = tmp_path / "second.yaml"
    second.write_text(
        "exporters: {nova: {labels: {model: [mine, served]},"
        " signals: {requests_waiting: {value: nova_queue}}}}"
    )
    catalog = load_catalog([first, second])
    assert catalog.exporters["nova"].title == "Nova"
    for signal, metric in (("requests_running", "nova_running"), ("requests_waiting", "nova_queue")):
        found = catalog.resolve(signal, {metric})
        assert isinstance(found, Resolved)
        assert found.promql == (
            f'sum by (model) (label_replace(label_replace({metric}, "model", "$1", "served", "(.+)"), '
            '"model", "$1", "mine", "(.+)"))'
        )


def test_a_variant_that_is_added_has_the_exporters_labels(tmp_path: Path):
    """Whoever adds one signal to an exporter does not lose which model it is of."""
    first = file(tmp_path, ENGINE)
    second = tmp_path / "second.yaml"
    second.write_text("exporters: {nova: {signals: {requests_waiting: {value: nova_queue}}}}")
    found = load_catalog([first, second]).resolve("requests_waiting", {"nova_queue"})
    assert isinstance(found, Resolved)
    assert '"model", "$1", "served"' in found.promql


def chained(number: int, mentions: int = 1) -> str:
    """Signals of which each is made of the one before."""
    signal = "{layer: cost, entity: cluster, unit: x, good: low, by: [], combine: sum, title: A, means: A.}"
    lines = ["signals:", *(f"  s{index}: {signal}" for index in range(number))]
    lines += ["exporters:", "  x:", "    title: X", "    signals:", "      s0: {value: a}"]
    for index in range(1, number):
        text = " + ".join([f"{{{{s{index - 1}}}}}"] * mentions)
        lines.append(f'      s{index}: {{value: "{text}"}}')
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (chained(2_000), "is made of more than 20 signals in one another"),
        (chained(15, mentions=9), "would be more than 1000000 characters of PromQL"),
    ],
)
def test_signals_of_signals_have_an_end(tmp_path: Path, text: str, reason: str):
    with pytest.raises(CatalogError, match=reason):
        load_catalog([file(tmp_path, text)])


IN_X = "exporters:\n  x:\n    title: X\n    signals:\n      "

SIGNAL = (
    "signals:\n"
    "  %s: {layer: cost, entity: gpu, unit: x, good: low, by: [], combine: sum, title: A, means: A.}"
)


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("exporters:\n  x:\n    titel: X", 3, "unknown key 'titel'; did you mean 'title'?"),
        (
            IN_X + "ttft_p59: {value: a}",
            5,
            "no signal 'ttft_p59'",
        ),
        (IN_X + "ttft: {value: a}", 5, "ttft is a distribution"),
        (
            IN_X + "requests_running: {histogram: a}",
            5,
            "no distribution",
        ),
        (
            IN_X + "ttft: {histogram: 'rate(a[5m])'}",
            5,
            "not a metric's name",
        ),
        (
            IN_X + "requests_running:\n        value: sum(a",
            6,
            "'sum(a' cannot be used",
        ),
        (
            IN_X + "requests_running: {value: a, ratio: [a, b]}",
            5,
            "give one of value, ratio, histogram and mean",
        ),
        (
            IN_X + "requests_running: {value: '{{nothing}}'}",
            5,
            "no signal 'nothing'",
        ),
        (
            IN_X + "requests_running: {value: '{{requests_waiting}}'}"
            "\n      requests_waiting: {value: '{{requests_running}}'}",
            0,
            "is made of itself",
        ),
        ("signals:\n  Bad-Id: {}", 2, "is not an id"),
        (
            "signals:\n  a: {layer: cost, entity: gpu, unit: x, good: low, by: [model],"
            " combine: sum, title: A, means: A}",
            2,
            "'model' is no label of a gpu",
        ),
        (
            "signals:\n  a: {layer: cost, entity: gppu, unit: x, good: low, by: [],"
            " combine: sum, title: A, means: A}",
            2,
            "no entity 'gppu'; did you mean 'gpu'?",
        ),
        (IN_X + "requests_running:\n        value: a[5m]", 6, "it is a matrix; write what gives an instant"),
        (IN_X + "requests_running:\n        value: time()", 6, "it is a scalar; write what gives an instant"),
        (IN_X + "requests_running:\n        value: vector(1)", 6, "say in 'needs' which metrics"),
        (IN_X + "requests_running: {value: a, needs: []}", 5, "say in 'needs' which metrics"),
        (IN_X + "requests_running: {value: a, needs: ['a{b=\"c\"}']}", 5, "is not a metric's name"),
        (IN_X + "requests_running: {value: a, where: ['x{']}", 5, "'x{' cannot be used"),
        (IN_X + "requests_running: {value: a, where: [sum(x)]}", 5, "is no selector"),
        (IN_X + "requests_running: {value: a, scale: nan}", 5, "scales nothing"),
        (IN_X + "requests_running: {value: a, labels: {modle: a}}", 5, "did you mean 'model'?"),
        ("exporters:\n  x:\n    title: X\n    labels:\n      modle: a", 5, "did you mean 'model'?"),
        (
            "exporters:\n  x:\n    title: X\n    labels: {model: {label: a, match: '('}}",
            4,
            "not a valid RE2 expression",
        ),
        (
            "exporters:\n  x:\n    title: X\n    labels: {model: {label: a, match: .+}}",
            4,
            "takes nothing: put what is to be taken into ( )",
        ),
        ("exporters:\n  x:\n    detect: [a]", 2, "'title' is missing"),
        ("entities:\n  desk: [a-b]", 2, "'a-b' cannot be a label"),
        ("entities:\n  desk: [le]", 2, "'le' cannot be a label"),
        (SIGNAL % "ttft", 2, "known as another kind"),
        (SIGNAL % "ttft_p95", 2, "ttft_p95 is a statistic of ttft"),
        ("signals: [1", 2, "not valid YAML"),
        ("- 1", 1, "has to be a section"),
    ],
)
def test_a_wrong_file_is_named_with_its_line(tmp_path: Path, text: str, line: int, reason: str):
    path = file(tmp_path, text)
    with pytest.raises(CatalogError) as caught:
        load_catalog([path])
    message = str(caught.value)
    assert "\n" not in message
    assert reason in message
    place = re.match(rf"{re.escape(str(path))}:(\d+): ", message)
    assert place is not None
    if line:
        assert int(place[1]) == line


def test_a_file_that_is_not_there_is_named(tmp_path: Path):
    with pytest.raises(CatalogError, match=r"nothing\.yaml: cannot be read: No such file"):
        load_catalog([tmp_path / "nothing.yaml"])
