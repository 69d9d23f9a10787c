"""strata.yaml, the environment and the command line: who wins, and how a mistake is named."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from db.settings import Settings, SettingsError, load_jobs, load_settings

EXAMPLE = Path(__file__).parents[2] / "strata.example.yaml"
HOME = {"HOME": "/home/ada"}


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Loads the text as strata.yaml, in an empty working folder."""
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)

    def load_text(
        text: str = "", overrides: Mapping[str, Any] | None = None, environ: Mapping[str, str] | None = None
    ) -> Settings:
        path = tmp_path / "strata.yaml"
        path.write_text(text)
        return load_settings(path, overrides or {}, {**HOME, **(environ or {})})

    return load_text


def mistake(load: Any, *arguments: Any) -> str:
    """The one line that names what is wrong, without the folder of this test."""
    with pytest.raises(SettingsError) as caught:
        load(*arguments)
    text = str(caught.value)
    assert "\n" not in text
    return text.partition("/strata.yaml")[2] or text


def test_defaults_need_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    settings = load_settings(None, {}, HOME)

    assert settings.data == Path("/home/ada/.local/share/strata")
    assert settings.samples_path == settings.data / "samples.db"
    assert settings.state_path == settings.data / "state.db"
    assert (settings.web.host, settings.web.port) == ("127.0.0.1", 8501)
    assert settings.scrape_interval == 5
    assert settings.storage.retention == 15 * 86400
    assert settings.discovers_local_services


def test_the_example_file_says_the_defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    assert load_settings(EXAMPLE, {}, HOME) == load_settings(None, {}, HOME)


def test_the_example_file_names_every_setting() -> None:
    text = EXAMPLE.read_text()

    for name in Settings.model_fields:
        assert f"\n{name}:" in text


def test_the_data_folder_follows_xdg(load: Any) -> None:
    assert load("", {}, {"XDG_DATA_HOME": "/var/ada"}).data == Path("/var/ada/strata")
    assert load("", {}, {"XDG_DATA_HOME": "relative"}).data == Path("/home/ada/.local/share/strata")


def test_command_line_over_environment_over_file(load: Any) -> None:
    text = "web:\n  port: 1111\n  host: 10.0.0.1\nscrape_interval: 30s\nlog: {level: error}\n"
    environ = {"STRATA_WEB__PORT": "2222", "STRATA_SCRAPE_INTERVAL": "20s"}

    settings = load(text, {"web": {"port": 3333}, "scrape_interval": None}, environ)

    assert settings.web.port == 3333
    assert settings.scrape_interval == 20
    assert settings.web.host == "10.0.0.1"
    assert settings.log.level == "error"
    assert settings.log.format == "logfmt"


def test_a_section_can_stand_in_the_environment(load: Any) -> None:
    settings = load(
        "", {}, {"STRATA_SCRAPE_CONFIGS": "[{job_name: a, static_configs: [{targets: [gpu1:9400]}]}]"}
    )

    assert settings.scrape_configs[0].static_configs[0].targets == ("gpu1:9400",)


def test_the_file_is_looked_for_in_the_working_folder_then_in_the_data_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work, data = tmp_path / "work", tmp_path / "data"
    work.mkdir()
    data.mkdir()
    monkeypatch.chdir(work)
    (data / "strata.yaml").write_text("scrape_interval: 11s\n")

    assert load_settings(None, {"data": data}, HOME).scrape_interval == 11
    assert load_settings(None, {}, {**HOME, "STRATA_DATA": str(data)}).scrape_interval == 11

    (work / "strata.yaml").write_text("scrape_interval: 12s\n")
    assert load_settings(None, {"data": data}, HOME).scrape_interval == 12

    (tmp_path / "other.yaml").write_text("scrape_interval: 13s\n")
    named = {**HOME, "STRATA_CONFIG": str(tmp_path / "other.yaml")}
    assert load_settings(None, {"data": data}, named).scrape_interval == 13


def test_relative_paths_are_relative_to_the_file_that_names_them(
    tmp_path: Path, load: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = """
data: store
prometheus_config: prom/prometheus.yml
scrape_configs:
  - job_name: a
    basic_auth: {username: u, password_file: secret}
    tls_config: {ca_file: /etc/ca.pem}
    file_sd_configs: [{files: [targets/*.json]}]
"""
    settings = load(text)

    assert settings.data == tmp_path / "store"
    assert settings.prometheus_config == tmp_path / "prom/prometheus.yml"
    job = settings.scrape_configs[0]
    assert job.basic_auth.password_file == str(tmp_path / "secret")
    assert job.tls_config.ca_file == "/etc/ca.pem"
    assert job.file_sd_configs[0].files == (str(tmp_path / "targets/*.json"),)

    assert load("", {"data": "here"}).data == tmp_path / "work" / "here"


def test_jobs_inherit_the_interval_and_a_timeout_that_fits(load: Any) -> None:
    text = "scrape_interval: 20s\nscrape_configs:\n- job_name: a\n- job_name: b\n  scrape_interval: 2s\n"
    first, second = load(text).scrape_configs

    assert (first.scrape_interval, first.scrape_timeout) == (20, 10)
    assert (second.scrape_interval, second.scrape_timeout) == (2, 2)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("scrape_interval: 5s\n\nscrape_intervall: 5s\n",
         ":3: unknown key 'scrape_intervall'; did you mean 'scrape_interval'?"),
        ("web:\n  prot: 80\n", ":2: unknown key 'prot'; did you mean 'port'?"),
        ("web:\n  port: eighty\n", ":2: 'port' has to be a whole number of 0 or more"),
        ("web:\n  port: 0\n", ":2: 'port' has to be between 1 and 65535"),
        ("web: 5\n", ":1: 'web' has to be a section of 'key: value' lines"),
        ("scrape_interval: 5\n",
         ":1: 'scrape_interval' '5' is not a duration; write it like 15s, 1m30s or 500ms"),
        ("scrape_interval: 0s\n", ":1: 'scrape_interval' has to be longer than 0s"),
        ("scrape_timeout: 1m\n", ":1: 'scrape_timeout' is longer than scrape_interval (5s); lower it"),
        ("log:\n  level: loud\n", ":2: 'level' has to be 'debug', 'info', 'warning' or 'error'"),
        ("timezone: Mars/Base\n", ":1: 'timezone' 'Mars/Base' is no time zone of this machine; "
         "use local, UTC or a name like Europe/Berlin"),
        ("collectors:\n  gpu: {}\n", ":2: unknown key 'gpu'"),
        ("discover: maybe\n", ":1: 'discover' has to be true or false"),
        ("- a\n", ":1: has to be a section of 'key: value' lines"),
        ("scrape_configs:\n- scheme: http\n", ":2: 'job_name' is missing"),
        ("scrape_configs:\n- job_name: a\n- job_name: a\n", ":3: job 'a' is given twice; rename one"),
        ("scrape_configs:\n- job_name: a\n  scrape_timeout: 9s\n",
         ":3: scrape timeout greater than scrape interval for job 'a'; lower scrape_timeout"),
        ("scrape_configs:\n- job_name: a\n  kubernetes_sd_configs: [{role: pod}]\n",
         ":3: 'kubernetes_sd_configs' is not supported: export its targets to a file_sd or http_sd source"),
    ],
)  # fmt: skip
def test_a_mistake_in_the_file_is_named_by_line_with_its_mend(load: Any, text: str, expected: str) -> None:
    assert mistake(load, text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "scrape_configs:\n- job_name: a\n  basic_auth:\n    username: u\n    password: hunter2\n",
        "scrape_configs:\n- job_name: a\n\n  authorization:\n    credentials: hunter2\n",
        "scrape_configs:\n- job_name: a\n  scheme: https\n  scrape_interval: 5s\n  bearer_token: hunter2\n",
        "scrape_configs:\n- job_name: a\n  http_sd_configs:\n  - url: http://x\n    bearer_token: hunter2\n",
    ],
)
def test_a_secret_in_the_file_is_refused_and_not_repeated(load: Any, text: str) -> None:
    said = mistake(load, text)

    assert said.startswith(":5: '")
    assert "would keep a secret in this file" in said
    assert "_file'" in said
    assert "hunter2" not in said


def test_labels_and_parameters_may_be_named_like_secrets(load: Any) -> None:
    text = "scrape_configs:\n- job_name: a\n  params: {password: [x]}\n"
    text += "  static_configs: [{targets: [b:1], labels: {credentials: none}}]\n"
    job = load(text).scrape_configs[0]

    assert job.params == {"password": ("x",)}
    assert job.static_configs[0].labels == {"credentials": "none"}


def test_a_mistake_in_the_environment_names_the_variable(load: Any) -> None:
    assert mistake(load, "", {}, {"STRATA_WEB__PORT": "x"}) == (
        "STRATA_WEB__PORT: 'port' has to be a whole number of 0 or more"
    )
    assert mistake(load, "", {}, {"STRATA_WEB__PROT": "1"}) == (
        "STRATA_WEB__PROT: unknown key 'prot'; did you mean 'port'?"
    )
    assert mistake(load, "", {}, {"STRATA_SCRAPE_CONFIGS": "[{"}).startswith(
        "STRATA_SCRAPE_CONFIGS: not valid YAML"
    )


def test_variables_that_are_empty_or_no_settings_are_left_alone(load: Any) -> None:
    assert load("", {}, {"STRATA_DEBUG": "1", "STRATA_WEB__PORT": ""}) == load("")


def test_a_mistake_on_the_command_line_is_named_as_such(load: Any) -> None:
    assert mistake(load, "", {"web": {"port": 99999}}) == (
        "command line, web.port: 'port' has to be between 1 and 65535"
    )


def test_a_file_that_was_asked_for_has_to_be_there(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"gone\.yaml: cannot be read: No such file"):
        load_settings(tmp_path / "gone.yaml", {}, HOME)


def test_broken_yaml_is_named_by_line(load: Any) -> None:
    assert mistake(load, "web:\n  port: [1\n").startswith(":3: not valid YAML")


def test_hostile_text_cannot_forge_a_line(load: Any) -> None:
    said = mistake(load, '"evil\\nINFO all is well": 1\n')

    assert said == ":1: unknown key 'evil\\nINFO all is well'"


def test_local_services_are_looked_for_unless_something_is_configured(load: Any) -> None:
    assert not load("scrape_configs:\n- job_name: a\n").discovers_local_services
    assert not load("prometheus_config: p.yml\n").discovers_local_services
    assert load("prometheus_config: p.yml\ndiscover: true\n").discovers_local_services
    assert not load("discover: false\n").discovers_local_services


def test_the_time_zone_is_a_real_one(load: Any) -> None:
    winter = datetime(2026, 1, 15, 12, tzinfo=UTC)

    assert winter.astimezone(load("timezone: UTC\n").zone).hour == 12
    assert winter.astimezone(load("timezone: Asia/Tokyo\n").zone).hour == 21


def test_jobs_come_from_both_files(tmp_path: Path, load: Any) -> None:
    (tmp_path / "prometheus.yml").write_text(
        "rule_files: [a.yml]\nscrape_configs:\n- job_name: b\n  basic_auth: {username: u, password: word}\n"
    )
    settings = load("prometheus_config: prometheus.yml\nscrape_configs:\n- job_name: a\n")

    jobs = load_jobs(settings)

    assert [job.job_name for job in jobs.configs] == ["a", "b"]
    assert jobs.configs[1].scrape_interval == 60
    assert jobs.configs[1].basic_auth is not None
    assert jobs.configs[1].basic_auth.password == "word"
    assert jobs.warnings == (
        f"{tmp_path}/prometheus.yml:1: 'rule_files' is not supported: no rules are evaluated from this file",
    )


def test_a_job_in_both_files_is_refused(tmp_path: Path, load: Any) -> None:
    (tmp_path / "prometheus.yml").write_text("scrape_configs:\n- job_name: a\n")
    settings = load("prometheus_config: prometheus.yml\nscrape_configs:\n- job_name: a\n")

    with pytest.raises(SettingsError, match=r"prometheus\.yml: job 'a' is also in strata\.yaml"):
        load_jobs(settings)


def test_secrets_are_not_printed(load: Any) -> None:
    environ = {"STRATA_SCRAPE_CONFIGS": "[{job_name: a, basic_auth: {username: u, password: hunter2}}]"}

    assert "hunter2" not in repr(load("", {}, environ))
