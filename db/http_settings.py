"""How to reach an HTTP endpoint: credentials, TLS and redirects, under Prometheus's own field names."""

from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from db.config_types import Section, Switch, Text

TlsVersion = Literal["TLS10", "TLS11", "TLS12", "TLS13"]


class _WithFiles(Section):
    """A section some of whose fields are paths."""

    file_fields: ClassVar[tuple[str, ...]] = ()

    def resolved(self, folder: Path) -> Self:
        """The section with its relative paths taken as relative to `folder`."""
        return self.model_copy(
            update={name: join_folder(folder, getattr(self, name)) for name in self.file_fields}
        )


class BasicAuth(_WithFiles):
    """User and password, each given directly or as a file that is read at every request."""

    file_fields = ("username_file", "password_file")

    username: Text = ""
    username_file: Text = ""
    password: Text = Field(default="", repr=False)
    password_file: Text = ""

    @model_validator(mode="after")
    def _one_source_each(self) -> Self:
        if self.username and self.username_file:
            raise ValueError("takes username or username_file, not both")
        if self.password and self.password_file:
            raise ValueError("takes password or password_file, not both")
        return self


class Authorization(_WithFiles):
    """An `Authorization: TYPE CREDENTIALS` header."""

    file_fields = ("credentials_file",)

    type: Text = "Bearer"
    credentials: Text = Field(default="", repr=False)
    credentials_file: Text = ""

    @model_validator(mode="before")
    @classmethod
    def _trim_type(cls, data: Any) -> Any:
        if isinstance(data, dict) and isinstance(data.get("type"), str):
            return {**data, "type": data["type"].strip() or "Bearer"}
        return data

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.credentials and self.credentials_file:
            raise ValueError("takes credentials or credentials_file, not both")
        if self.type.lower() == "basic":
            raise ValueError("cannot have type 'basic'; use basic_auth")
        return self


class TlsConfig(_WithFiles):
    """TLS towards the endpoint; `ca` is PEM text, the files are paths."""

    file_fields = ("ca_file", "cert_file", "key_file")

    ca: Text = ""
    ca_file: Text = ""
    cert_file: Text = ""
    key_file: Text = ""
    server_name: Text = ""
    insecure_skip_verify: Switch = False
    min_version: TlsVersion | None = None
    max_version: TlsVersion | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.ca and self.ca_file:
            raise ValueError("takes ca or ca_file, not both")
        if self.cert_file and not self.key_file:
            raise ValueError("has cert_file without key_file; give both")
        if self.key_file and not self.cert_file:
            raise ValueError("has key_file without cert_file; give both")
        if self.min_version and self.max_version and self.min_version > self.max_version:
            raise ValueError("has a max_version below its min_version")
        return self


class HttpClientSettings(Section):
    """What a scrape job and an http_sd_config have in common."""

    basic_auth: BasicAuth | None = None
    authorization: Authorization | None = None
    tls_config: TlsConfig = TlsConfig()
    follow_redirects: Switch = True
    # The older spelling of `authorization`; folded into it.
    bearer_token: Text = Field(default="", repr=False)
    bearer_token_file: Text = ""

    @model_validator(mode="before")
    @classmethod
    def _fold_bearer_token(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        token, file = data.get("bearer_token"), data.get("bearer_token_file")
        if not token and not file:
            return data
        if token and file:
            raise ValueError("takes bearer_token or bearer_token_file, not both")
        for other in ("basic_auth", "authorization"):
            if data.get(other) is not None:
                raise ValueError(f"takes bearer_token or {other}, not both")
        rest = {key: value for key, value in data.items() if not key.startswith("bearer_token")}
        folded = {"credentials": token} if token else {"credentials_file": file}
        return {**rest, "authorization": folded}

    @model_validator(mode="after")
    def _one_kind_of_credentials(self) -> Self:
        if self.basic_auth is not None and self.authorization is not None:
            raise ValueError("takes basic_auth or authorization, not both")
        return self

    def resolved_http(self, folder: Path) -> dict[str, Any]:
        """The fields whose paths are relative, with absolute paths."""
        return {
            "basic_auth": self.basic_auth and self.basic_auth.resolved(folder),
            "authorization": self.authorization and self.authorization.resolved(folder),
            "tls_config": self.tls_config.resolved(folder),
        }


def join_folder(folder: Path, name: str) -> str:
    """A path as written in a file of `folder`: absolute paths stay, empty stays empty."""
    return str(folder / name) if name else ""
