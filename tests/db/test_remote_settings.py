"""`store` in strata.yaml: what it takes, and the line and mend of what it does not."""

from pathlib import Path

import pytest

from db.settings import SettingsError, load_settings

ENGINE = "store:\n  prometheus:\n    query_url: http://p:9090/\n"


def loaded(folder: Path, text: str, overrides=None, environ=None):
    path = folder / "strata.yaml"
    path.write_text(text)
    return load_settings(path, overrides or {}, {"HOME": str(folder), **(environ or {})})


def test_without_it_samples_stay_here(tmp_path) -> None:
    store = loaded(tmp_path, "log: {level: info}\n").store
    assert store.prometheus is None
    assert not store.is_read_only
    assert not store.is_written


def test_an_address_alone_means_reading(tmp_path) -> None:
    store = loaded(tmp_path, ENGINE).store
    assert store.is_read_only
    assert store.prometheus is not None
    assert store.prometheus.query_url == "http://p:9090"


def test_everything_set(tmp_path) -> None:
    text = ENGINE + (
        "    remote_write_url: https://p/api/v1/write\n"
        "    auth: {username: ada, password_file: secret}\n"
        "    headers: {X-Scope-OrgID: gpu}\n"
        "    tls_config: {ca_file: ca.pem}\n"
        "    timeout: 10s\n    max_samples_per_send: 500\n    queue: {size: 2GB, age: 2h}\n"
    )
    engine = loaded(tmp_path, text).store.prometheus
    assert engine is not None
    assert engine.is_written
    assert engine.auth.password_file == str(tmp_path / "secret")
    assert engine.tls_config.ca_file == str(tmp_path / "ca.pem")
    assert (engine.timeout, engine.max_samples_per_send) == (10, 500)
    assert (engine.queue.size, engine.queue.age) == (2 << 30, 7200)
    assert engine.headers == {"X-Scope-OrgID": "gpu"}


def test_the_command_line_reads_only_whatever_the_file_writes_to(tmp_path) -> None:
    from app.commands.options import _nested, engine_settings

    text = ENGINE + "    remote_write_url: http://p/api/v1/write\n    headers: {X-Scope-OrgID: gpu}\n"
    overrides = _nested(engine_settings("http://other:9090"))
    engine = loaded(tmp_path, text, overrides).store.prometheus
    assert engine is not None
    assert (engine.query_url, engine.is_written) == ("http://other:9090", False)
    assert engine.headers == {"X-Scope-OrgID": "gpu"}
    assert engine_settings(None) == {}


def test_the_environment(tmp_path) -> None:
    environ = {"STRATA_STORE__PROMETHEUS__QUERY_URL": "http://e:1"}
    engine = loaded(tmp_path, "", environ=environ).store.prometheus
    assert engine is not None
    assert engine.query_url == "http://e:1"


@pytest.mark.parametrize(
    ("lines", "place", "words"),
    [
        ("    qeury_url: http://p\n", 4, "unknown key 'qeury_url'; did you mean 'query_url'"),
        ("    remote_write_url: p:9090\n", 4, "is not a URL; write it like http://"),
        ("    remote_write_url: http://ada:pw@p/\n", 4, "holds a user or a password; give them as auth"),
        ("    remote_write_url: http://p/?tenant=1\n", 4, "no part of an engine's address"),
        ("    auth: {username: a, password: b}\n", 4, "unknown key 'password'"),
        ("    auth: {password_file: b}\n", 4, "password_file without username"),
        ("    auth: {username: a, bearer_token_file: b}\n", 4, "not both"),
        ("    headers: {Authorization: Bearer x}\n", 4, "cannot be set here: give the credentials as auth"),
        ('    headers: {"X Y": a}\n', 4, "cannot be a header's name"),
        ('    headers: {X-Y: "a\\nb"}\n', 4, "characters that a header cannot have"),
        ("    max_samples_per_send: 10\n", 4, "between 100 and 50000"),
        ("    queue: {size: 1KB}\n", 4, "1MB or more"),
        ("    timeout: 0s\n", 4, "longer than 0s"),
    ],
)
def test_what_cannot_be_meant_is_told_with_its_line(tmp_path, lines, place, words) -> None:
    with pytest.raises(SettingsError) as raised:
        loaded(tmp_path, ENGINE + lines)
    assert f"strata.yaml:{place}: " in str(raised.value)
    assert words in str(raised.value)


def test_a_writing_address_needs_a_reading_one(tmp_path) -> None:
    with pytest.raises(SettingsError, match="has no query_url"):
        loaded(tmp_path, "store:\n  prometheus:\n    remote_write_url: http://p/api/v1/write\n")
    with pytest.raises(SettingsError, match=r"strata.yaml:2: .*unknown key 'victoria'"):
        loaded(tmp_path, "store:\n  victoria: {query_url: http://p}\n")


def test_no_secret_of_a_header_is_printed(tmp_path) -> None:
    engine = loaded(tmp_path, ENGINE + "    headers: {X-Token: sesame}\n").store.prometheus
    assert "sesame" not in repr(engine)
