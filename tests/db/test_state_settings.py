"""`storage`: where the state is; its password never lies in strata.yaml or comes out of the settings."""

from pathlib import Path

import pytest
from sqlalchemy import make_url

from db.settings import Settings, SettingsError, load_settings

SECRET = "s3cr3t: of@ada"
SERVER = "postgresql+psycopg://ada@db.example/strata"


def load(folder: Path, text: str, **environ: str) -> Settings:
    path = folder / "strata.yaml"
    path.write_text(f"data: {folder / 'data'}\n{text}")
    return load_settings(path, {}, environ)


def test_without_a_url_it_is_a_file_beside_the_samples(tmp_path: Path) -> None:
    settings = load(tmp_path, "")
    assert settings.state_location == tmp_path / "data/state.db"
    assert settings.storage.retention_size is None


def test_a_file_elsewhere(tmp_path: Path) -> None:
    assert load(tmp_path, "storage: {state: 'sqlite:////srv/x.db'}").state_location == Path("/srv/x.db")


def test_a_relative_file_is_beside_the_file_that_names_it(tmp_path: Path) -> None:
    assert load(tmp_path, "storage: {state: 'sqlite:///x.db'}").state_location == tmp_path / "x.db"


def test_a_server_whose_password_is_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(f"{SECRET}\n")
    settings = load(tmp_path, f"storage:\n  state: {SERVER}\n  state_password_file: secret\n")
    assert make_url(str(settings.state_location)) == make_url(SERVER).set(password=SECRET)
    assert "s3cr3t" not in f"{settings!r} {settings.model_dump_json()} {settings.model_dump()}"


def test_a_server_whose_password_is_in_the_environment(tmp_path: Path) -> None:
    settings = load(tmp_path, "", STRATA_STORAGE__STATE="postgresql+psycopg://ada:pass-w0rd@db/strata")
    assert settings.state_location == "postgresql+psycopg://ada:pass-w0rd@db/strata"
    assert "pass-w0rd" not in f"{settings!r} {settings.model_dump_json()} {settings.model_dump()}"


def test_a_server_that_asks_for_no_password(tmp_path: Path) -> None:
    assert load(tmp_path, f"storage: {{state: '{SERVER}'}}").state_location == SERVER


def test_a_password_in_the_file_is_refused_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        load(tmp_path, "storage:\n  state: postgresql+psycopg://ada:pass-w0rd@db/strata\n")
    assert str(caught.value).startswith(
        f"{tmp_path}/strata.yaml:3: 'state' would keep a password in this file"
    )
    assert "pass-w0rd" not in str(caught.value)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("/srv/state.db", "'state' has to be a URL; write sqlite:////PATH or"),
        ("mysql://ada@db/strata", "'state' names 'mysql', but the state is kept in SQLite or PostgreSQL"),
        ("postgresql://ada@db/strata", "'state' begins with postgresql://, but PostgreSQL is reached by"),
        ("[1, 2]", "'state' has to be a URL"),
    ],
)
def test_a_value_that_is_no_place_is_refused_with_its_line(tmp_path: Path, value: str, reason: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load(tmp_path, f"storage:\n  state: {value}\n")
    assert str(caught.value).startswith(f"{tmp_path}/strata.yaml:3: {reason}")


def test_a_password_file_that_cannot_be_read(tmp_path: Path) -> None:
    settings = load(tmp_path, f"storage:\n  state: {SERVER}\n  state_password_file: nowhere\n")
    with pytest.raises(SettingsError, match=r"nowhere: cannot be read: No such file or directory"):
        settings.state_location  # noqa: B018 - reading it is what fails


@pytest.mark.parametrize(("text", "size"), [("50GB", 50 * 2**30), ("512MB", 2**29)])
def test_a_bound_for_the_size(tmp_path: Path, text: str, size: int) -> None:
    assert load(tmp_path, f"storage: {{retention_size: {text}}}").storage.retention_size == size


def test_no_size_at_all_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="'retention_size' has to be more than 0; leave it empty"):
        load(tmp_path, "storage: {retention_size: 0}")
