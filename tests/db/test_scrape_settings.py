"""An existing prometheus.yml is taken as it is: same defaults, same verdicts, nothing silently ignored."""

import subprocess
from pathlib import Path

import pytest

from db.config_errors import SettingsError
from db.prometheus_config import PrometheusConfig, load_prometheus_config
from db.scrape_settings import DEFAULT_PROTOCOLS
from tests.needs import require_program

JOB = "scrape_configs:\n- job_name: a\n  "

GOOD = {
    "empty": "",
    "empty global": "global:\n",
    "a job of nothing": JOB,
    "numbers as text": JOB + "static_configs: [{targets: [a], labels: {rack: 012, v: 1.10}}]\n",
    "number as name": "scrape_configs:\n- job_name: 5\n",
    "switch spelled yes": JOB + "honor_labels: yes\n",
    "float as count": JOB + "sample_limit: 1e3\n",
    "size": JOB + "body_size_limit: 1.5MB\n",
    "no size limit": JOB + "body_size_limit: 0\n",
    "timeout equal to interval": JOB + "scrape_interval: 5s\n  scrape_timeout: 5s\n",
    "interval below the default timeout": JOB + "scrape_interval: 5s\n",
    "empty interval": JOB + "scrape_interval:\n",
    "slash in a target that is relabelled": JOB
    + "static_configs: [{targets: [a/b]}]\n  relabel_configs: [{action: drop}]\n",
    "empty regex": JOB + "relabel_configs: [{action: drop, source_labels: [a], regex: }]\n",
    "action in capitals": JOB + "relabel_configs: [{action: KEEP, source_labels: [a]}]\n",
    "all actions": """
scrape_configs:
- job_name: a
  relabel_configs:
  - {source_labels: [a, b], separator: '', regex: '(.+)', target_label: c, replacement: '${1}-x'}
  - {source_labels: [a], target_label: 'x_${1}'}
  - {action: hashmod, source_labels: [__address__], modulus: 4, target_label: __tmp}
  - {action: labelmap, regex: __meta_(.+)}
  - {action: labeldrop, regex: __tmp.*}
  - {action: labelkeep, regex: '.*'}
  - {action: lowercase, source_labels: [a], target_label: a}
  - {action: uppercase, source_labels: [a], target_label: a}
  - {action: keepequal, source_labels: [a], target_label: b}
  - {action: dropequal, source_labels: [a], target_label: c}
  metric_relabel_configs:
  - {source_labels: [__name__], regex: 'go_.*', action: drop}
""",
    "credentials": JOB + "basic_auth: {username: u, password: p}\n"
    "- job_name: b\n  authorization: {credentials: t}\n- job_name: c\n  bearer_token: t\n",
    "other sections": """
global: {scrape_interval: 15s, evaluation_interval: 15s, external_labels: {site: west}}
alerting:
  alertmanagers: [{static_configs: [{targets: [am:9093]}]}]
remote_write: [{url: http://x/write}]
scrape_configs:
- job_name: k8s
- job_name: dns
  dns_sd_configs: [{names: [gpus.example]}]
""",
    "discovery": JOB + "file_sd_configs: [{files: [x/*.json, 'y.yml'], refresh_interval: 1m}]\n"
    "  http_sd_configs: [{url: 'http://sd/x', refresh_interval: 30s}]\n",
    "anchors": "scrape_configs:\n- &a {job_name: a, scheme: https}\n- {<<: *a, job_name: b}\n",
    "parameters": JOB + "params: {module: [http_2xx, x]}\n",
}

BAD = {
    "not a mapping": "[]\n",
    "unknown section": "foo: 1\n",
    "unknown key": JOB + "scrape_intervall: 5s\n",
    "unknown key below": JOB + "tls_config: {ca_fil: x}\n",
    "key twice": JOB + "job_name: b\n",
    "no job name": "scrape_configs:\n- scheme: http\n",
    "empty job name": "scrape_configs:\n- job_name:\n",
    "empty job": "scrape_configs:\n-\n",
    "job twice": "scrape_configs:\n- job_name: a\n- job_name: a\n",
    "duration without unit": JOB + "scrape_interval: 30\n",
    "empty duration": JOB + "scrape_interval: ''\n",
    "timeout above interval": JOB + "scrape_interval: 5s\n  scrape_timeout: 6s\n",
    "global timeout above interval": "global: {scrape_interval: 5s, scrape_timeout: 6s}\n",
    "timeout above the inherited interval": "global: {scrape_interval: 5s}\n" + JOB + "scrape_timeout: 6s\n",
    "quoted count": JOB + "sample_limit: '5'\n",
    "negative count": JOB + "sample_limit: -5\n",
    "number as switch": JOB + "honor_labels: 1\n",
    "quoted switch": JOB + "honor_labels: 'true'\n",
    "size without unit": JOB + "body_size_limit: 10\n",
    "size in small letters": JOB + "body_size_limit: 1mb\n",
    "text for a list": JOB + "params: {m: x}\n",
    "targets as text": JOB + "static_configs: [{targets: a:80}]\n",
    "unknown key in a group": JOB + "static_configs: [{target: [a:80]}]\n",
    "URL as target": JOB + "static_configs: [{targets: ['http://a:80']}]\n",
    "unknown action": JOB + "relabel_configs: [{action: mangle}]\n",
    "bad regex": JOB + "relabel_configs: [{regex: '(', target_label: x}]\n",
    "regex with look-ahead": JOB + "relabel_configs: [{regex: 'a(?=b)', target_label: x}]\n",
    "empty rule": JOB + "relabel_configs:\n  -\n",
    "replace without target": JOB + "relabel_configs: [{source_labels: [a]}]\n",
    "hashmod without modulus": JOB + "relabel_configs: [{action: hashmod, target_label: x}]\n",
    "hashmod without target": JOB + "relabel_configs: [{action: hashmod, modulus: 2}]\n",
    "labeldrop with source": JOB + "relabel_configs: [{action: labeldrop, regex: x, source_labels: [a]}]\n",
    "labelkeep with target": JOB + "relabel_configs: [{action: labelkeep, regex: x, target_label: a}]\n",
    "lowercase with replacement": JOB
    + "relabel_configs: [{action: lowercase, source_labels: [a], target_label: a, replacement: x}]\n",
    "keepequal with regex": JOB
    + "relabel_configs: [{action: keepequal, source_labels: [a], target_label: a, regex: x}]\n",
    "labelmap to nothing": JOB + "metric_relabel_configs: [{action: labelmap, regex: x, replacement: ''}]\n",
    "two credentials": JOB + "basic_auth: {username: u}\n  authorization: {credentials: t}\n",
    "bearer twice": JOB + "bearer_token: t\n  bearer_token_file: f\n",
    "bearer and basic": JOB + "bearer_token: t\n  basic_auth: {username: u}\n",
    "password twice": JOB + "basic_auth: {username: u, password: p, password_file: f}\n",
    "authorization basic": JOB + "authorization: {type: Basic, credentials: t}\n",
    "certificate without key": JOB + "tls_config: {cert_file: c}\n",
    "file_sd of nothing": JOB + "file_sd_configs: [{files: []}]\n",
    "file_sd of another kind": JOB + "file_sd_configs: [{files: [x.txt]}]\n",
    "file_sd with a starred folder": JOB + "file_sd_configs: [{files: ['x*/y.json']}]\n",
    "http_sd without URL": JOB + "http_sd_configs: [{refresh_interval: 5s}]\n",
    "http_sd of another scheme": JOB + "http_sd_configs: [{url: 'ftp://x/y'}]\n",
    "starred folder of jobs": "scrape_config_files: ['a*/b.yml']\n",
    "broken YAML": "scrape_configs: [\n",
}


def write(folder: Path, text: str, name: str = "prometheus.yml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def load(folder: Path, text: str) -> tuple[PrometheusConfig, list[str]]:
    """The configuration and its warnings without the folder."""
    config, warnings = load_prometheus_config(write(folder, text))
    return config, [line.removeprefix(f"{folder}/prometheus.yml") for line in warnings]


@pytest.mark.parametrize("name", GOOD)
def test_good_configurations_load(tmp_path: Path, name: str) -> None:
    load(tmp_path, GOOD[name])


@pytest.mark.parametrize("name", BAD)
def test_bad_configurations_are_refused_in_one_line_that_names_the_place(tmp_path: Path, name: str) -> None:
    with pytest.raises(SettingsError, match=r"^\S+/prometheus\.yml:\d+: \S") as caught:
        load(tmp_path, BAD[name])

    assert "\n" not in str(caught.value)


@pytest.mark.server
@pytest.mark.parametrize("name", [*GOOD, *BAD])
def test_prometheus_gives_the_same_verdict(tmp_path: Path, name: str) -> None:
    promtool = require_program("promtool")
    path = write(tmp_path, GOOD.get(name) or BAD.get(name, ""))

    result = subprocess.run([promtool, "check", "config", path], capture_output=True, text=True, check=False)

    assert (result.returncode == 0) == (name in GOOD), result.stdout + result.stderr


def test_defaults_are_those_of_prometheus(tmp_path: Path) -> None:
    config, warnings = load(tmp_path, "scrape_configs:\n- job_name: a\n")
    job = config.jobs[0]

    assert warnings == []
    assert (job.scrape_interval, job.scrape_timeout) == (60, 10)
    assert (job.scheme, job.metrics_path) == ("http", "/metrics")
    assert (job.honor_labels, job.honor_timestamps, job.follow_redirects) == (False, True, True)
    assert job.scrape_protocols == DEFAULT_PROTOCOLS
    assert (job.sample_limit, job.body_size_limit, job.target_limit, job.label_limit) == (0, 0, 0, 0)


def test_jobs_inherit_from_global(tmp_path: Path) -> None:
    config, _ = load(
        tmp_path,
        """
global:
  scrape_interval: 30s
  scrape_timeout: 20s
  sample_limit: 100
  body_size_limit: 2MB
  scrape_protocols: [PrometheusText0.0.4]
  external_labels: {site: west}
scrape_configs:
- job_name: a
- job_name: b
  scrape_interval: 15s
  sample_limit: 5
  scrape_protocols: [OpenMetricsText1.0.0]
""",
    )
    first, second = config.jobs

    assert (first.scrape_interval, first.scrape_timeout) == (30, 20)
    assert (second.scrape_interval, second.scrape_timeout) == (15, 15)
    assert (first.sample_limit, second.sample_limit) == (100, 5)
    assert first.body_size_limit == second.body_size_limit == 2 * 1024 * 1024
    assert first.scrape_protocols == ("PrometheusText0.0.4",)
    assert second.scrape_protocols == ("OpenMetricsText1.0.0",)
    assert config.external_labels == {"site": "west"}


def test_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    config, _ = load(
        tmp_path,
        """
scrape_configs:
- job_name: a
  authorization: {credentials_file: secrets/token}
  tls_config: {ca_file: ca.pem, cert_file: /abs/cert.pem, key_file: key.pem}
  file_sd_configs: [{files: [targets/*.yml, /abs/x.json]}]
  http_sd_configs: [{url: 'http://sd', basic_auth: {username: u, password_file: pw}}]
""",
    )
    job = config.jobs[0]

    assert job.authorization is not None
    assert job.authorization.credentials_file == f"{tmp_path}/secrets/token"
    assert (job.tls_config.ca_file, job.tls_config.cert_file) == (f"{tmp_path}/ca.pem", "/abs/cert.pem")
    assert job.file_sd_configs[0].files == (f"{tmp_path}/targets/*.yml", "/abs/x.json")
    assert job.http_sd_configs[0].basic_auth is not None
    assert job.http_sd_configs[0].basic_auth.password_file == f"{tmp_path}/pw"


def test_a_bearer_token_becomes_an_authorization(tmp_path: Path) -> None:
    config, _ = load(tmp_path, "scrape_configs:\n- job_name: a\n  bearer_token_file: t\n")
    authorization = config.jobs[0].authorization

    assert authorization is not None
    assert (authorization.type, authorization.credentials_file) == ("Bearer", f"{tmp_path}/t")


def test_every_unsupported_field_is_named_with_its_line(tmp_path: Path) -> None:
    _, warnings = load(
        tmp_path,
        """global:
  evaluation_interval: 15s
rule_files: [a.yml]
remote_write:
- url: http://x
scrape_configs:
- job_name: gpu
  oauth2: {client_id: x}
  proxy_url: http://proxy
  scrape_protocols: [PrometheusProto, PrometheusText0.0.4]
  tls_config:
    cert: PEM
  static_configs: [{targets: [a]}]
  http_sd_configs:
  - url: http://sd
    enable_http2: true
- job_name: pods
  kubernetes_sd_configs: [{role: pod}]
""",
    )

    assert [(line.split(":")[1], line.split("'")[-2]) for line in warnings] == [
        ("2", "evaluation_interval"),
        ("3", "rule_files"),
        ("4", "remote_write"),
        ("8", "oauth2"),
        ("9", "proxy_url"),
        ("10", "PrometheusProto"),
        ("12", "cert"),
        ("16", "enable_http2"),
        ("17", "pods"),
        ("18", "kubernetes_sd_configs"),
    ]
    assert warnings[-2] == ":17: job 'pods' scrapes nothing: its only discovery is not supported"
    assert warnings[3].startswith(":8: job 'gpu': 'oauth2' is not supported: no token is fetched")


def test_unsupported_fields_that_ask_for_nothing_are_not_named(tmp_path: Path) -> None:
    _, warnings = load(
        tmp_path,
        "rule_files: []\nalerting:\nscrape_configs:\n- job_name: a\n  enable_http2: false\n"
        "  metric_name_validation_scheme: utf8\n  native_histogram_bucket_limit: 0\n",
    )

    assert warnings == []


def test_a_job_with_another_discovery_beside_the_unsupported_one_still_scrapes(tmp_path: Path) -> None:
    config, warnings = load(
        tmp_path,
        JOB + "consul_sd_configs: [{server: x}]\n  static_configs: [{targets: [b]}]\n",
    )

    assert config.jobs[0].static_configs[0].targets == ("b",)
    assert len(warnings) == 1


def test_protobuf_alone_falls_back_to_the_text_formats(tmp_path: Path) -> None:
    config, warnings = load(
        tmp_path,
        JOB + "scrape_protocols: [PrometheusProto]\n  fallback_scrape_protocol: PrometheusProto\n",
    )

    assert config.jobs[0].scrape_protocols == DEFAULT_PROTOCOLS
    assert config.jobs[0].fallback_scrape_protocol is None
    assert len(warnings) == 2


@pytest.mark.parametrize(
    ("protocols", "words"),
    [("[]", "is empty"), ("[Foo]", "has to be"), ("[PrometheusText0.0.4, PrometheusText0.0.4]", "twice")],
)
def test_protocol_lists_are_checked(tmp_path: Path, protocols: str, words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        load(tmp_path, f"scrape_configs:\n- job_name: a\n  scrape_protocols: {protocols}\n")


def test_job_files_are_found_by_pattern_and_inherit(tmp_path: Path) -> None:
    jobs = tmp_path / "jobs"
    jobs.mkdir()
    write(jobs, "scrape_configs:\n- job_name: b\n  authorization: {credentials_file: t}\n", "b.yml")
    write(jobs, "scrape_configs:\n- job_name: c\n  oauth2: {client_id: x}\n", "c.yml")
    config, warnings = load(
        tmp_path,
        "global: {scrape_interval: 7s}\nscrape_config_files: ['jobs/*.yml']\n" + JOB,
    )

    assert [(job.job_name, job.scrape_interval) for job in config.jobs] == [("a", 7), ("b", 7), ("c", 7)]
    assert config.jobs[1].authorization is not None
    assert config.jobs[1].authorization.credentials_file == f"{jobs}/t"
    assert warnings[0].startswith(f"{jobs}/c.yml:3: job 'c': 'oauth2' is not supported")


def test_a_job_name_in_two_files_is_refused(tmp_path: Path) -> None:
    write(tmp_path, "scrape_configs:\n- job_name: a\n", "more.yml")

    with pytest.raises(
        SettingsError, match=r"more\.yml: job 'a' is already in \S+/prometheus\.yml; rename one"
    ):
        load(tmp_path, "scrape_config_files: [more.yml]\nscrape_configs:\n- job_name: a\n")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"gone\.yml: cannot be read"):
        load_prometheus_config(tmp_path / "gone.yml")


def test_label_names_follow_prometheus_3(tmp_path: Path) -> None:
    """Prometheus 2 refuses these; 3 takes any non-empty name."""
    config, _ = load(
        tmp_path,
        "scrape_configs:\n- job_name: a\n  static_configs: [{targets: [b], labels: {k8s.pod.name: c}}]\n"
        "  relabel_configs: [{source_labels: [x], target_label: service.name}]\n",
    )

    assert config.jobs[0].static_configs[0].labels == {"k8s.pod.name": "c"}
