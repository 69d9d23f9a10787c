"""From an address to a target: URL, labels, interval, and what cannot be scraped."""

from pathlib import Path
from typing import Any

import pytest

from collectors.targets import BuiltTargets, TargetBuilder
from db.scrape_settings import GlobalConfig, ScrapeConfig, TargetGroup


def build(*addresses: str, labels: dict[str, str] | None = None, **settings: Any) -> BuiltTargets:
    config = ScrapeConfig.model_validate({"job_name": "gpu", **settings})
    group = TargetGroup(targets=addresses, labels=labels or {})
    return TargetBuilder(config.resolved(GlobalConfig(), Path("/etc"))).build([group])


def test_a_target_has_job_and_instance_and_keeps_what_was_discovered() -> None:
    target = build("gpu1:9400", labels={"rack": "r1", "__meta_filepath": "/x"}).targets[0]

    assert target.url == "http://gpu1:9400/metrics"
    assert target.labels == (("instance", "gpu1:9400"), ("job", "gpu"), ("rack", "r1"))
    assert dict(target.discovered) == {
        "__address__": "gpu1:9400",
        "__meta_filepath": "/x",
        "__metrics_path__": "/metrics",
        "__scheme__": "http",
        "__scrape_interval__": "1m",
        "__scrape_timeout__": "10s",
        "job": "gpu",
        "rack": "r1",
    }
    assert (target.interval_seconds, target.timeout_seconds) == (60, 10)
    assert (target.job, target.instance) == ("gpu", "gpu1:9400")


@pytest.mark.parametrize(
    ("address", "settings", "url"),
    [
        ("a:1", {"scheme": "https"}, "https://a:1/metrics"),
        ("a", {}, "http://a/metrics"),
        ("[::1]:9100", {}, "http://[::1]:9100/metrics"),
        ("a:1", {"metrics_path": "probe"}, "http://a:1/probe"),
        ("a:1", {"metrics_path": ""}, "http://a:1"),
        ("a:1", {"metrics_path": "/x?y z"}, "http://a:1/x%3Fy%20z"),
        ("a:1", {"params": {"b": ["2", "3 4"], "a": ["1"]}}, "http://a:1/metrics?a=1&b=2&b=3+4"),
        ("gpu-1.rack_2.example:80", {}, "http://gpu-1.rack_2.example:80/metrics"),
    ],
)
def test_urls_are_those_of_prometheus(address: str, settings: dict[str, Any], url: str) -> None:
    built = build(address, **settings)

    assert [target.url for target in built.targets] == [url]


def test_labels_may_set_scheme_path_parameters_and_times() -> None:
    labels = {
        "__scheme__": "https",
        "__metrics_path__": "/m",
        "__param_module": "icmp",
        "__scrape_interval__": "30s",
        "__scrape_timeout__": "2500ms",
        "instance": "named",
        "job": "own",
    }
    target = build("a:1", labels=labels, params={"module": ["http", "x"]}).targets[0]

    assert target.url == "https://a:1/m?module=icmp&module=x"
    assert (target.interval_seconds, target.timeout_seconds) == (30, 2.5)
    assert target.labels == (("instance", "named"), ("job", "own"))
    assert target.job == "gpu"


@pytest.mark.parametrize(
    ("address", "labels", "reason"),
    [
        ("http://a:1", {}, "is not a host:port; give the path as metrics_path"),
        ("", {}, "has no address"),
        ("a:1x", {}, "is not a host:port"),
        ("a:70000", {}, "is not a host:port"),
        ("user@a:1", {}, "is not a host:port"),
        ("a:1?x=y", {}, "is not a host:port"),
        ("a b:1", {}, "is not a host:port"),
        ("::1", {}, "is not a host:port"),
        ("a:1", {"__scheme__": "file"}, "scheme 'file' is neither http nor https"),
        ("a:1", {"__scrape_interval__": "soon"}, "'soon' is not a duration"),
        ("a:1", {"__scrape_interval__": "0s"}, "__scrape_interval__ cannot be 0"),
        ("a:1", {"__scrape_timeout__": "2m"}, "timeout 120s is longer than"),
    ],
)
def test_what_cannot_be_scraped_is_an_error_and_costs_only_itself(
    address: str, labels: dict[str, str], reason: str
) -> None:
    # With a rule the address is not checked when the file is read: a rule may still change it.
    rules = [{"action": "labeldrop", "regex": "nothing"}]
    built = build("good:1", relabel_configs=rules)
    broken = build(address, labels=labels, relabel_configs=rules)

    assert len(built.targets) == 1
    assert broken.targets == ()
    assert len(broken.errors) == 1
    assert reason in broken.errors[0]


def test_dropped_targets_are_counted_and_equal_ones_are_one() -> None:
    rules = [{"source_labels": ["__address__"], "regex": "b.*", "action": "drop"}]
    built = build("a:1", "b:1", "a:1", "b:2", relabel_configs=rules)

    assert [target.instance for target in built.targets] == ["a:1"]
    assert built.dropped == 2


def test_above_the_target_limit_none_is_scraped() -> None:
    assert len(build("a:1", "b:1", target_limit=2).targets) == 2

    built = build("a:1", "b:1", "c:1", target_limit=2)
    assert built.targets == ()
    assert built.errors == ("3 targets exceed target_limit 2; none of them is scraped",)


def test_the_key_tells_targets_apart_by_job_url_and_labels() -> None:
    key = build("a:1").targets[0].key

    assert key == build("a:1", sample_limit=5, scrape_interval="30s").targets[0].key
    assert key != build("a:1", metrics_path="/m").targets[0].key
    assert key != build("a:1", labels={"rack": "r1"}).targets[0].key
    assert key != build("a:1", job_name="other", labels={"job": "gpu"}).targets[0].key
