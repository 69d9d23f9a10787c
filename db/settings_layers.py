"""Where settings come from: the command line, the environment, a file; and how a user finds one's place."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

from db.config_errors import SettingsError
from db.prometheus_fields import leave_out_unused
from db.yaml_lines import Document, KeyPath, Plain, YamlError, parse_yaml, read_yaml

CONFIG_VARIABLE = "STRATA_CONFIG"
_ENV_PREFIX = "STRATA_"
_NO_SETTINGS = frozenset({CONFIG_VARIABLE, "STRATA_DEBUG"})  # the latter shows tracebacks
# Literal secrets would end up in version control and in backups of the file.
_SECRETS = {
    "password": "password_file",
    "credentials": "credentials_file",
    "bearer_token": "bearer_token_file",
}


@dataclass(frozen=True, slots=True)
class Layer:
    """One source of settings: its values, and how a user finds the place of one of them."""

    data: dict[str, Any]
    kind: Literal["line", "environ", "file"]
    file: Path | None = None
    document: Document | None = None

    @classmethod
    def of_overrides(cls, overrides: Mapping[str, Any]) -> Self:
        return cls(_without_none(overrides), "line")

    @classmethod
    def of_environment(cls, environ: Mapping[str, str]) -> Self:
        data: dict[str, Any] = {}
        for variable, text in sorted(environ.items()):
            if not variable.startswith(_ENV_PREFIX) or variable in _NO_SETTINGS or not text:
                continue
            value: Any = Plain(text)
            if text.lstrip().startswith(("[", "{")):
                try:
                    value = parse_yaml(text).data
                except YamlError as error:
                    raise SettingsError(variable, error.reason) from error
            for part in reversed(variable.removeprefix(_ENV_PREFIX).lower().split("__")):
                value = {part: value}
            data = merge(data, value)
        return cls(data, "environ")

    @classmethod
    def of_file(cls, path: Path) -> Self:
        try:
            document = read_yaml(path)
        except YamlError as error:
            raise SettingsError(f"{path}:{error.line}", error.reason) from error
        except OSError as error:
            raise SettingsError(str(path), f"cannot be read: {error.strerror or error}") from error
        data = {} if document.data is None else document.data
        if not isinstance(data, dict):
            raise SettingsError(f"{path}:1", "has to be a section of 'key: value' lines")
        _check_jobs(data, path, document)
        return cls(data, "file", path, document)

    def has(self, path: KeyPath) -> bool:
        value: Any = self.data
        for part in path:
            if isinstance(value, list) and isinstance(part, int) and part < len(value):
                value = value[part]
            elif isinstance(value, dict) and part in value:
                value = value[str(part)]
            else:
                return False
        return True

    def place(self, path: KeyPath) -> str:
        if self.document is not None:
            return f"{self.file}:{self.document.line(path)}"
        names = [str(part) for part in path if isinstance(part, str)]
        if self.kind == "environ":
            return _ENV_PREFIX + "__".join(names).upper()
        return f"command line, {'.'.join(names)}"


def _check_jobs(data: dict[str, Any], path: Path, document: Document) -> None:
    """What a prometheus.yml may hold and strata.yaml may not: unsupported fields and literal secrets."""
    jobs = data.get("scrape_configs")
    _, unused = leave_out_unused(jobs, ("scrape_configs",), "job")
    if unused:
        raise SettingsError(f"{path}:{document.line(unused[0].path)}", unused[0].text)
    for place, name in _literal_secrets(jobs, ("scrape_configs",)):
        reason = f"'{name}' would keep a secret in this file; put it in a file of its own and name that as "
        reason += f"'{_SECRETS[name]}'"
        raise SettingsError(f"{path}:{document.line(place)}", reason)


def _literal_secrets(value: Any, path: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    if isinstance(value, dict):
        for name, item in value.items():
            if name in _SECRETS and isinstance(item, str):
                yield (*path, name), name
            elif name not in ("params", "labels"):  # these hold names of the user's own
                yield from _literal_secrets(item, (*path, name))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _literal_secrets(item, (*path, index))


def merge(below: dict[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(below)
    for key, value in above.items():
        old = result.get(key)
        result[key] = merge(old, value) if isinstance(old, dict) and isinstance(value, Mapping) else value
    return result


def _without_none(values: Mapping[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            result[key] = _without_none(value)
        elif value is not None:
            result[key] = Plain(value) if type(value) is str else value
    return result
