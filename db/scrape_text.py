"""The scrape configuration as text, for whoever asks the server what it scrapes; without its secrets."""

import json
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import yaml

from db.settings import Settings, load_jobs

_HIDDEN = "<secret>"
_SECRETS = frozenset({"password", "credentials", "bearer_token"})


def scrape_config_text(settings: Settings) -> str:
    """prometheus.yml's `global` and `scrape_configs` as they are in force. Raises SettingsError."""
    defaults = settings.scrape_defaults
    jobs = [
        _without_secrets(json.loads(job.model_dump_json(by_alias=True, exclude_defaults=True)))
        for job in load_jobs(settings).configs
    ]
    document = {
        "global": json.loads(defaults.model_dump_json(by_alias=True, exclude_defaults=True)),
        "scrape_configs": jobs,
    }
    text: str = yaml.safe_dump(document, sort_keys=False, allow_unicode=True)
    return text


def _without_secrets(value: Any, name: str = "") -> Any:
    if isinstance(value, dict):
        return {key: _without_secrets(item, key) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_secrets(item) for item in value]
    if name in _SECRETS and value:
        return _HIDDEN
    return _without_password(value) if name == "url" and isinstance(value, str) else value


def _without_password(url: str) -> str:
    parts = urlsplit(url)
    user, at, place = parts.netloc.rpartition("@")
    if not at or ":" not in user:
        return url
    return urlunsplit(parts._replace(netloc=f"{user.partition(':')[0]}:{_HIDDEN}@{place}"))
