"""Relabelling gives what Prometheus gives: by example, and against the real one."""

import http.server
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from collectors.relabel import Relabeller, relabel
from collectors.targets import Target, TargetBuilder
from db.prometheus_config import load_prometheus_config
from db.relabel_settings import RelabelConfig
from db.scrape_settings import TargetGroup
from tests.genuine_prometheus import prometheus


def apply(labels: Mapping[str, str], *rules: dict[str, Any]) -> dict[str, str] | None:
    return relabel(labels, [RelabelConfig.model_validate(rule) for rule in rules])


@pytest.mark.parametrize(
    ("rule", "added"),
    [
        ({"source_labels": ["a"], "target_label": "d"}, {"d": "foo"}),
        ({"source_labels": ["a", "b", "c"], "target_label": "d"}, {"d": "foo;bar;baz"}),
        ({"source_labels": ["a", "none", "b"], "separator": "/", "target_label": "d"}, {"d": "foo//bar"}),
        ({"target_label": "d", "replacement": "static"}, {"d": "static"}),
        (
            {"source_labels": ["a"], "regex": "f(.*)", "target_label": "d", "replacement": "b${1}b"},
            {"d": "boob"},
        ),
        ({"source_labels": ["a"], "regex": "oo", "target_label": "d", "replacement": "x"}, {}),
        (
            {"source_labels": ["a"], "regex": "(f)(.*)", "target_label": "d", "replacement": "$2$1"},
            {"d": "oof"},
        ),
        ({"source_labels": ["a"], "regex": "(f).*", "target_label": "d", "replacement": "$1x"}, {}),
        (
            {"source_labels": ["a"], "regex": "(f).*", "target_label": "d", "replacement": "$1-x"},
            {"d": "f-x"},
        ),
        ({"source_labels": ["a"], "regex": "(f).*", "target_label": "d", "replacement": "$$1"}, {"d": "$1"}),
        ({"source_labels": ["a"], "regex": "(f).*", "target_label": "d", "replacement": "5$"}, {"d": "5$"}),
        (
            {"source_labels": ["a"], "regex": "(f).*", "target_label": "d", "replacement": "a${1"},
            {"d": "a${1"},
        ),
        ({"source_labels": ["a"], "regex": "(f).*", "target_label": "d", "replacement": "a$-"}, {"d": "a$-"}),
        ({"source_labels": ["a"], "regex": "(f).*", "target_label": "d", "replacement": "${01}$9y"}, {}),
        (
            {"source_labels": ["a"], "regex": "(f).*", "target_label": "d", "replacement": "<$0>"},
            {"d": "<foo>"},
        ),
        (
            {"source_labels": ["a"], "regex": "(?P<x>f).*", "target_label": "d", "replacement": "${x}$x"},
            {"d": "ff"},
        ),
        ({"source_labels": ["a"], "regex": "(f)|(z)", "target_label": "d", "replacement": "$2"}, {}),
        ({"source_labels": ["a"], "target_label": "${1}"}, {"foo": "foo"}),
        ({"source_labels": ["a"], "target_label": "x_$1", "replacement": "y"}, {"x_foo": "y"}),
        ({"source_labels": ["none"], "target_label": "${1}", "replacement": "y"}, {}),
        ({"source_labels": ["a"], "action": "uppercase", "target_label": "d"}, {"d": "FOO"}),
        ({"source_labels": ["a"], "action": "hashmod", "modulus": 1000, "target_label": "d"}, {"d": "696"}),
        ({"action": "labelmap", "regex": "(a|b)", "replacement": "new_$1"}, {"new_a": "foo", "new_b": "bar"}),
        ({"action": "keep", "source_labels": ["a"], "regex": "fo+"}, {}),
        ({"action": "drop", "source_labels": ["a"], "regex": "fo"}, {}),
        ({"action": "dropequal", "source_labels": ["a"], "target_label": "b"}, {}),
        ({"action": "labeldrop", "regex": "x.*"}, {}),
    ],
)
def test_a_rule_adds(rule: dict[str, Any], added: dict[str, str]) -> None:
    labels = {"a": "foo", "b": "bar", "c": "baz"}

    assert apply(labels, rule) == labels | added


@pytest.mark.parametrize(
    "rule",
    [
        {"action": "keep", "source_labels": ["a"], "regex": "fo"},
        {"action": "keep", "source_labels": ["none"], "regex": ".+"},
        {"action": "drop", "source_labels": ["a", "b"], "regex": "foo;.*"},
        {"action": "drop", "source_labels": ["none"]},
        {"action": "keepequal", "source_labels": ["a"], "target_label": "b"},
        {"action": "dropequal", "source_labels": ["none"], "target_label": "none_either"},
    ],
)
def test_a_rule_drops_the_whole_set(rule: dict[str, Any]) -> None:
    assert apply({"a": "foo", "b": "bar"}, rule) is None


def test_an_empty_result_deletes_the_label() -> None:
    assert apply({"a": "foo", "b": "bar"}, {"target_label": "a", "replacement": ""}) == {"b": "bar"}
    assert apply({"a": "foo"}, {"source_labels": ["x"], "target_label": "a", "action": "lowercase"}) == {}


def test_label_names_are_kept_and_dropped_by_pattern() -> None:
    labels = {"a1": "x", "a2": "y", "b": "z"}

    assert apply(labels, {"action": "labelkeep", "regex": "a."}) == {"a1": "x", "a2": "y"}
    assert apply(labels, {"action": "labeldrop", "regex": "a."}) == {"b": "z"}


def test_rules_see_what_earlier_ones_did() -> None:
    rules = (
        {"source_labels": ["a"], "target_label": "b", "replacement": "$1$1"},
        {"source_labels": ["b"], "target_label": "c"},
        {"action": "labeldrop", "regex": "b"},
        {"action": "keep", "source_labels": ["b"], "regex": ""},
    )

    assert apply({"a": "x"}, *rules) == {"a": "x", "c": "xx"}


def test_a_dot_matches_a_line_break() -> None:
    assert apply({"a": "x\ny"}, {"source_labels": ["a"], "target_label": "b", "regex": "(x.y)"}) == {
        "a": "x\ny",
        "b": "x\ny",
    }


def test_letters_change_one_for_one() -> None:
    """As in Go: neither Python's SS for ß nor its final sigma."""
    rules = (
        {"source_labels": ["a"], "target_label": "up", "action": "uppercase"},
        {"source_labels": ["a"], "target_label": "low", "action": "lowercase"},
    )

    assert apply({"a": "Straße ΟΔΟΣ"}, *rules) == {
        "a": "Straße ΟΔΟΣ",
        "up": "STRAßE ΟΔΟΣ",
        "low": "straße οδοσ",
    }


def test_the_input_is_left_alone_and_answers_repeat() -> None:
    relabeller = Relabeller([RelabelConfig(source_labels=("a",), target_label="b", regex="(.).*")])
    labels = {"a": "xyz"}

    assert [relabeller(labels), relabeller(labels)] == [{"a": "xyz", "b": "x"}] * 2
    assert labels == {"a": "xyz"}


def test_a_relabeller_knows_whether_it_has_rules() -> None:
    assert not Relabeller([])
    assert Relabeller([RelabelConfig(action="labeldrop", regex="a")])


@pytest.mark.timeout(10)
def test_a_hostile_value_costs_no_time() -> None:
    """`(a+)+b` takes a backtracking engine for ever."""
    rule = {"source_labels": ["a"], "regex": "(a+)+b", "action": "drop"}

    assert apply({"a": "a" * 50_000}, rule) is not None


GROUPS = [
    {
        "targets": ["127.0.0.1:1", "127.0.0.1:2"],
        "labels": {"rack": "r1", "model": "Llama-3", "zone": "eu-West"},
    },
    {
        "targets": ["127.0.0.1:3"],
        "labels": {"__scheme__": "https", "__metrics_path__": "/m(x)?y z", "team": "a;b"},
    },
    {
        "targets": ["127.0.0.1:4", "[::1]:5"],
        "labels": {"__param_module": "icmp", "job": "own", "instance": "named"},
    },
    {
        "targets": ["127.0.0.1:6"],
        "labels": {"__scrape_interval__": "45s", "__scrape_timeout__": "5s", "rack": ""},
    },
    {"targets": ["127.0.0.1:1"], "labels": {"rack": "r1", "model": "Llama-3", "zone": "eu-West"}},
]
RULES = {
    "plain": "[]",
    "copy": "[{source_labels: [rack, model], target_label: where, separator: ' / '}]",
    "template": """
  - source_labels: [__address__]
    regex: '([^:]+):(\\d+)'
    target_label: instance
    replacement: 'node${2}-$1-$$x$'
  - source_labels: [model]
    regex: '(?P<family>[A-Za-z]+)-(.*)'
    target_label: 'm_${family}'
    replacement: '${2}'
""",
    "shard": """
  - {source_labels: [__address__], modulus: 3, target_label: __tmp_hash, action: hashmod}
  - {source_labels: [__tmp_hash], regex: 1, action: drop}
""",
    "map": """
  - {action: labelmap, regex: '(ra.*|zone)', replacement: 'topology_${1}'}
  - {action: labeldrop, regex: zone}
""",
    "keep": "[{source_labels: [rack], regex: 'r.*', action: keep}]",
    "case": """
  - {source_labels: [zone], target_label: zone, action: lowercase}
  - {source_labels: [model], target_label: model, action: uppercase}
  - {source_labels: [zone], target_label: job, action: dropequal}
""",
    "address": """
  - {source_labels: [__address__], target_label: __param_target}
  - {source_labels: [__param_target], target_label: instance}
  - {target_label: __address__, replacement: '127.0.0.1:9115'}
  - {target_label: __metrics_path__, replacement: probe}
""",
    "interval": """
  - {target_label: __scrape_interval__, replacement: 1m30s}
  - {target_label: __scrape_timeout__, replacement: 20s}
""",
    "nothing": "[{action: labelkeep, regex: '__.*'}]",
    "emptied": "[{target_label: rack, replacement: ''}, {source_labels: [nothing], target_label: zone}]",
}  # fmt: skip


def config_text(folder: Path) -> str:
    (folder / "targets.json").write_text(json.dumps(GROUPS))
    jobs = "".join(
        f"- job_name: {name}\n  params: {{a: [x, 'y z']}}\n  file_sd_configs: [{{files: [targets.json]}}]\n"
        f"  relabel_configs: {rules}\n"
        for name, rules in RULES.items()
    )
    return f"global: {{scrape_interval: 1h}}\nscrape_configs:\n{jobs}"


def shown(target: Target) -> tuple[Any, ...]:
    # Prometheus 2.42 shows changed labels as discovered ones: compared only where no rule changes any.
    discovered = target.discovered if target.job == "plain" else ()
    times = (target.interval_seconds, target.timeout_seconds)
    return target.job, target.url, target.labels, discovered, times


def seconds(text: str) -> float:
    return {"1h": 3600.0, "45s": 45.0, "1m30s": 90.0, "10s": 10.0, "5s": 5.0, "20s": 20.0}[text]


@pytest.mark.server
def test_targets_are_those_of_the_real_prometheus(tmp_path: Path) -> None:
    path = tmp_path / "prometheus.yml"
    path.write_text(config_text(tmp_path))
    ours, dropped = set(), []
    for config in load_prometheus_config(path)[0].jobs:
        groups = [TargetGroup.model_validate(group) for group in GROUPS]
        groups = [
            group.model_copy(
                update={"labels": group.labels | {"__meta_filepath": f"{tmp_path}/targets.json"}}
            )
            for group in groups
        ]
        built = TargetBuilder(config).build(groups)
        assert built.errors == ()
        ours |= {shown(target) for target in built.targets}
        dropped.append(built.dropped)

    # Prometheus 3 adds no default port; this switch gives 2.x the same rule.
    with prometheus(path, tmp_path, "--enable-feature=no-default-scrape-port") as server:
        answer = server.eventually(
            lambda: (
                (data := server.api("targets", state="any"))
                and {target["scrapePool"] for target in data["activeTargets"]} == set(RULES)
                and data
            )
        )

    theirs = {
        (
            target["scrapePool"],
            target["scrapeUrl"],
            tuple(sorted(target["labels"].items())),
            tuple(sorted(target["discoveredLabels"].items())) if target["scrapePool"] == "plain" else (),
            (seconds(target["scrapeInterval"]), seconds(target["scrapeTimeout"])),
        )
        for target in answer["activeTargets"]
    }
    assert ours == theirs
    assert sum(dropped) == len(answer["droppedTargets"]) > 0


PAGE = """\
# TYPE vllm:requests counter
vllm:requests{model="Llama-3",engine="0"} 1
vllm:requests{model="mistral",engine="1"} 2
go_threads 5
tmp_debug{host="a",path="/x/y"} 1
metric_old_name{quantile="0.5",instance="theirs",exported_job="z"} 3
"""
METRIC_RULES = """
  - {source_labels: [__name__], regex: 'go_.*', action: drop}
  - {source_labels: [__name__], regex: 'metric_old_(.+)', target_label: __name__, replacement: 'm_$1'}
  - {source_labels: [model], regex: '(\\w+)-(\\d+)', target_label: family, replacement: '$1'}
  - {source_labels: [model, engine], modulus: 7, target_label: shard, action: hashmod}
  - {action: labelmap, regex: 'eng(.*)', replacement: 'mapped_$1'}
  - {action: labeldrop, regex: 'engine|path'}
  - {source_labels: [model], target_label: model, action: lowercase}
"""


@contextmanager
def serving(page: str) -> Iterator[str]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(page.encode())

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.server
def test_metric_relabelling_is_that_of_the_real_prometheus(tmp_path: Path) -> None:
    path = tmp_path / "prometheus.yml"
    with serving(PAGE) as address:
        path.write_text(
            "scrape_configs:\n- job_name: page\n  scrape_interval: 1s\n  honor_labels: true\n"
            f"  static_configs: [{{targets: ['{address}']}}]\n  metric_relabel_configs: {METRIC_RULES}"
        )
        rules = Relabeller(load_prometheus_config(path)[0].jobs[0].metric_relabel_configs)
        with prometheus(path, tmp_path) as server:
            series = server.eventually(
                lambda: server.api("series", **{"match[]": '{__name__=~"vllm.*|m_.*|tmp.*|go_.*"}'})
            )

    own = {"job": "page", "instance": address}
    scraped = [
        {"__name__": "vllm:requests", "model": "Llama-3", "engine": "0"},
        {"__name__": "vllm:requests", "model": "mistral", "engine": "1"},
        {"__name__": "go_threads"},
        {"__name__": "tmp_debug", "host": "a", "path": "/x/y"},
        {"__name__": "metric_old_name", "quantile": "0.5", "instance": "theirs", "exported_job": "z"},
    ]
    ours = [rules(own | labels) for labels in scraped]
    assert sorted(sorted(labels.items()) for labels in ours if labels) == sorted(
        sorted(labels.items()) for labels in series
    )
