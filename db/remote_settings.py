"""`store` in the settings: an engine that answers Prometheus's HTTP API, read only or written as well."""

from pathlib import Path
from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from db.config_types import ByteSize, Count, Duration, Name, Section, Text
from db.http_settings import Authorization, BasicAuth, HttpClientSettings, TlsConfig, join_folder

# RFC 9110, 5.6.2: what a header's name is made of.
_TOKEN = frozenset("!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
_OWN_HEADERS = {
    "authorization": "give the credentials as auth",
    "content-type": "Strata sets it",
    "content-encoding": "Strata sets it",
    "content-length": "Strata sets it",
    "accept-encoding": "Strata sets it",
    "host": "Strata sets it",
}
# One request may not be so small that a catch-up never ends, nor so large that engines refuse it.
_SEND_SAMPLES = (100, 50_000)


def _url(text: str) -> str:
    if not text:
        return ""
    try:
        parts = urlsplit(text)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        usable = False
    if not usable or any(character.isspace() for character in text):
        raise ValueError(f"{text!r} is not a URL; write it like http://prometheus:9090")
    if "@" in parts.netloc:
        raise ValueError("holds a user or a password; give them as auth: {username: ..., password_file: ...}")
    if parts.query or parts.fragment:
        raise ValueError("ends with ?... or #..., which is no part of an engine's address; leave it out")
    return text.rstrip("/")


def _headers(headers: dict[str, str]) -> dict[str, str]:
    for name, value in headers.items():
        if not name or not set(name) <= _TOKEN:
            raise ValueError(f"{name!r} cannot be a header's name")
        if (mend := _OWN_HEADERS.get(name.lower())) is not None:
            raise ValueError(f"{name} cannot be set here: {mend}")
        if not value.isascii() or not value.isprintable():
            raise ValueError(f"the value of {name} has characters that a header cannot have")
    return headers


def _batch(samples: int) -> int:
    least, most = _SEND_SAMPLES
    if not least <= samples <= most:
        raise ValueError(f"has to be between {least} and {most}")
    return samples


def _positive(seconds: float) -> float:
    if seconds <= 0:
        raise ValueError("has to be longer than 0s")
    return seconds


def _some_bytes(size: int) -> int:
    if size < 1 << 20:
        raise ValueError("has to be 1MB or more")
    return size


EngineUrl = Annotated[Text, AfterValidator(_url)]
Headers = Annotated[dict[Name, Text], AfterValidator(_headers)]


class RemoteAuth(Section):
    """Who we are for the engine; secrets come from files only, which are read at every request."""

    username: Text = ""
    password_file: Text = ""
    bearer_token_file: Text = ""

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if self.bearer_token_file and (self.username or self.password_file):
            raise ValueError("takes username and password_file, or bearer_token_file, not both")
        if self.password_file and not self.username:
            raise ValueError("has password_file without username; give both")
        return self

    def resolved(self, folder: Path) -> Self:
        """With its relative paths taken as relative to `folder`."""
        files = {
            name: join_folder(folder, getattr(self, name)) for name in ("password_file", "bearer_token_file")
        }
        return self.model_copy(update=files)


class QueueSettings(Section):
    """What waits on disk while the engine does not take it; beyond either bound the oldest goes."""

    size: Annotated[ByteSize, AfterValidator(_some_bytes)] = 4 << 30
    age: Annotated[Duration, AfterValidator(_positive)] = 86_400.0


class PrometheusSettings(Section):
    """An engine: Prometheus, VictoriaMetrics, Mimir, Thanos.

    query_url: what stands before `/api/v1/query`. remote_write_url: the whole address that samples go to;
    without it the engine is only read, and nothing is scraped.
    """

    query_url: EngineUrl = ""
    remote_write_url: EngineUrl = ""
    auth: RemoteAuth = RemoteAuth()
    headers: Headers = Field(default={}, repr=False)
    tls_config: TlsConfig = TlsConfig()
    timeout: Annotated[Duration, AfterValidator(_positive)] = 30.0
    max_samples_per_send: Annotated[Count, AfterValidator(_batch)] = 10_000
    queue: QueueSettings = QueueSettings()

    @model_validator(mode="after")
    def _can_be_read(self) -> Self:
        if not self.query_url:
            raise ValueError("has no query_url; give the engine's address, like http://prometheus:9090")
        return self

    @property
    def is_written(self) -> bool:
        return bool(self.remote_write_url)

    def http(self) -> HttpClientSettings:
        """Credentials and TLS in the form that scrape jobs have."""
        auth = self.auth
        basic = BasicAuth(username=auth.username, password_file=auth.password_file) if auth.username else None
        token = Authorization(credentials_file=auth.bearer_token_file) if auth.bearer_token_file else None
        return HttpClientSettings(basic_auth=basic, authorization=token, tls_config=self.tls_config)

    def resolved(self, auth_folder: Path, tls_folder: Path) -> Self:
        """With the relative paths of both sections taken as relative to the folder that each comes from."""
        return self.model_copy(
            update={
                "auth": self.auth.resolved(auth_folder),
                "tls_config": self.tls_config.resolved(tls_folder),
            }
        )


class StoreSettings(Section):
    """Where samples are read from and go to: the embedded store, or an engine."""

    prometheus: PrometheusSettings | None = None

    @property
    def is_read_only(self) -> bool:
        """Is there an engine that Strata reads and does not write?"""
        return self.prometheus is not None and not self.prometheus.is_written

    @property
    def is_written(self) -> bool:
        """Is there an engine that all samples go to?"""
        return self.prometheus is not None and self.prometheus.is_written
