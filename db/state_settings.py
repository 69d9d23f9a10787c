"""`storage.state` in the settings: a URL whose password comes from a file or the environment.

SQLAlchemy reads the URL; it is imported only when there is one.
"""

from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer

from db.config_errors import SettingsError
from db.settings_layers import Layer

_KEY = ("storage", "state")
_PASSWORD_KEY = "storage.state_password_file"  # noqa: S105 - a setting's name


def refuse_literal_password(layer: Layer) -> None:
    """Raises SettingsError when the file's URL holds a password: it would end up in version control."""
    if not layer.has(_KEY):
        return
    from sqlalchemy import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        password = make_url(str(layer.data["storage"]["state"])).password
    except (ArgumentError, ValueError):
        return  # the field itself says what is wrong with it
    if password is not None:
        raise SettingsError(
            layer.place(_KEY),
            "'state' would keep a password in this file; put it in a file of its own and name that as "
            "'state_password_file', or give the URL as STRATA_STORAGE__STATE in the environment",
        )


def absolute_state(state: str, folder: Path) -> str:
    """The URL, in which a SQLite file's relative path begins at `folder`."""
    from db.state_location import parse_location

    location = parse_location(state)
    return f"sqlite:///{folder / location}" if isinstance(location, Path) else state


def state_location(state: str | None, password_file: Path | None) -> Path | str | None:
    """The file, or the server's URL with its password; None when no place was set. Raises SettingsError."""
    if state is None:
        return None
    from db.state_location import parse_location

    location = parse_location(state)
    if isinstance(location, Path):
        return location
    if password_file is not None:
        try:
            password = password_file.read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "is not text"
            raise SettingsError(str(password_file), f"cannot be read: {reason} ({_PASSWORD_KEY})") from error
        location = location.set(password=password)
    return location.render_as_string(hide_password=False)


def _url(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("has to be a URL")
    if "://" not in value:
        raise ValueError("has to be a URL; write sqlite:////PATH or postgresql+psycopg://USER@HOST/DATABASE")
    from db.errors import StoreUnreachable
    from db.state_location import SUBJECT, parse_location

    try:
        parse_location(str(value))
    except StoreUnreachable as error:
        raise ValueError(str(error).removeprefix(f"{SUBJECT} ")) from None
    return str(value)


def _without_password(state: str) -> str:
    from sqlalchemy import make_url

    return make_url(state).render_as_string(hide_password=True)


# Printed and dumped without its password.
StateUrl = Annotated[str, BeforeValidator(_url), PlainSerializer(_without_password)]
