"""How a remote engine is spoken to: a session for prometheus-api-client that keeps every promise the client
does not make itself.

The client passes `timeout=None`, retries for seconds, sends a POST's parameters in the URL, hands out only
`data.result` of an answer, and lets HTML and half an answer through as they are. Here a request ends in a
document or in one QueryError whose sentence names the engine and never a secret.
"""

import time
from base64 import b64encode
from collections.abc import Mapping
from http.cookiejar import DefaultCookiePolicy
from pathlib import Path
from typing import Any

import orjson
import requests
import urllib3
from requests.adapters import HTTPAdapter
from requests.auth import AuthBase
from urllib3.exceptions import InsecureRequestWarning, ProtocolError

from db.logs import printable
from db.promql.errors import (
    BadQuery,
    ExecutionError,
    QueryCanceled,
    QueryError,
    QueryTimeout,
    SourceUnavailable,
)
from db.remote_settings import PrometheusSettings, RemoteAuth
from db.tls import TlsError, tls_context

CONNECT_SECONDS = 5.0
# Unpacked; as Python objects an answer takes ten times as much while it is read.
ANSWER_BYTES = 128 << 20
_CHUNK_BYTES = 1 << 20
_SENTENCE = 300
_ERRORS: dict[str, type[QueryError]] = {
    "bad_data": BadQuery,
    "execution": ExecutionError,
    "timeout": QueryTimeout,
    "canceled": QueryCanceled,
}
# VictoriaMetrics has the status for its errorType.
_BY_STATUS: dict[int, type[QueryError]] = {400: BadQuery, 422: ExecutionError, 504: QueryTimeout}
# Monitoring proxies that only let GET through.
_NO_POST = (405, 501)


class Document:
    """What the client takes for a response. It hands out `data.result` of a query, and of that only; so this
    is where it finds the whole document, with the warnings and the resultType that it would lose."""

    status_code = 200

    def __init__(self, document: dict[str, Any], *, of_query: bool) -> None:
        self._document = {"data": {"result": document}} if of_query else document

    def json(self) -> dict[str, Any]:
        return self._document


class SecretAuth(AuthBase):
    """The Authorization header, from files that are read at every request: no reload for a new one."""

    def __init__(self, auth: RemoteAuth) -> None:
        self._auth = auth

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        if self._auth.bearer_token_file:
            request.headers["Authorization"] = f"Bearer {_secret(self._auth.bearer_token_file)}"
        elif self._auth.username:
            password = _secret(self._auth.password_file) if self._auth.password_file else ""
            pair = b64encode(f"{self._auth.username}:{password}".encode()).decode()
            request.headers["Authorization"] = f"Basic {pair}"
        return request


class _Adapter(HTTPAdapter):
    """No retries of its own, and the TLS of the settings."""

    def __init__(self, settings: PrometheusSettings) -> None:
        self._tls = tls_context(settings.tls_config)
        self._server_name = settings.tls_config.server_name
        super().__init__(max_retries=0, pool_maxsize=16)

    def init_poolmanager(self, *arguments: Any, **options: Any) -> None:
        if self._tls is not None:
            options["ssl_context"] = self._tls
        if self._server_name:
            options["server_hostname"] = options["assert_hostname"] = self._server_name
        super().init_poolmanager(*arguments, **options)

    def cert_verify(self, conn: Any, url: str, verify: Any, cert: Any) -> None:
        if self._tls is None:
            super().cert_verify(conn, url, verify, cert)  # otherwise the context says what is trusted


class RemoteSession(requests.Session):
    """A session for one engine. Every request raises QueryError or gives a Document."""

    def __init__(self, settings: PrometheusSettings) -> None:
        """Raises SourceUnavailable for TLS files that cannot be used."""
        super().__init__()
        self.trust_env = False  # a proxy or a .netrc of the environment is not what the settings say
        if settings.tls_config.insecure_skip_verify:
            self.verify = False  # requests asks for certificates whatever the context says
            urllib3.disable_warnings(InsecureRequestWarning)  # it was asked for; not at every request
        self.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
        self.name = settings.query_url
        self._auth = SecretAuth(settings.auth)
        self._tenant = {**settings.headers, "Accept-Encoding": "gzip", "User-Agent": "Strata/0.1"}
        self._seconds = settings.timeout
        self._get_only = False
        try:
            self.adapter = _Adapter(settings)
        except TlsError as error:
            raise SourceUnavailable(f"{self.name}: {error}") from error

    def request(self, method: Any, url: Any, params: Any = None, **_options: Any) -> Any:  # type: ignore[override]
        """Ask and read the whole answer within the settings' timeout. `url` is the client's; the query's
        parameters are `params`."""
        text = str(url)
        document = self._answer(str(method), text, dict(params or {}))
        return Document(document, of_query=text.endswith(("/query", "/query_range")))

    def get(self, url: Any, *, params: Any = None, **options: Any) -> Any:  # type: ignore[override]
        return self.request("GET", url, params=params, **options)

    def _answer(self, method: str, url: str, params: Mapping[str, Any]) -> dict[str, Any]:
        ends = time.monotonic() + self._seconds
        if method == "POST" and not self._get_only:
            status, kind, body = self._ask("POST", url, params, ends)
            if status not in _NO_POST:
                return self._document(status, kind, body)
            self._get_only = True
        return self._document(*self._ask("GET", url, params, ends))

    def _ask(self, method: str, url: str, params: Mapping[str, Any], ends: float) -> tuple[int, str, bytes]:
        """Status, content type and body. Raises QueryError."""
        form = method == "POST"  # the client would put a long query into the URL all the same
        for attempt in (1, 2):
            left = ends - time.monotonic()
            try:
                with super().request(
                    method,
                    url,
                    headers=self._tenant,
                    auth=self._auth,
                    stream=True,
                    # A redirected POST loses its form, and a tenant's token would go wherever it leads.
                    allow_redirects=False,
                    timeout=(min(CONNECT_SECONDS, self._seconds), max(left, 0.1)),
                    data=params if form else None,
                    params=None if form else params,
                ) as response:
                    return (
                        response.status_code,
                        response.headers.get("Content-Type", ""),
                        self._read(response, ends),
                    )
            except requests.exceptions.ConnectionError as error:
                # A kept connection that the engine closed meanwhile: a new one will do, once.
                if attempt == 2 or not _was_closed(error):
                    raise self._unreachable(error) from error
            except requests.exceptions.RequestException as error:
                raise self._unreachable(error) from error
            except OSError as error:
                raise SourceUnavailable(f"{self.name}: {error}") from error
        raise AssertionError("unreachable")

    def _read(self, response: requests.Response, ends: float) -> bytes:
        parts, size = [], 0
        for part in response.iter_content(_CHUNK_BYTES):
            size += len(part)
            if size > ANSWER_BYTES:
                raise ExecutionError(
                    f"{self.name} answered with more than {ANSWER_BYTES >> 20} MB; "
                    "select fewer series, a shorter time or a larger step"
                )
            if time.monotonic() > ends:
                raise QueryTimeout(_too_slow(self.name, self._seconds))
            parts.append(part)
        return b"".join(parts)

    def _unreachable(self, error: requests.exceptions.RequestException) -> QueryError:
        if isinstance(error, requests.exceptions.ConnectTimeout):
            return SourceUnavailable(
                f"{self.name} cannot be reached: no connection within {CONNECT_SECONDS:g} s"
            )
        if isinstance(error, requests.exceptions.Timeout):
            return QueryTimeout(_too_slow(self.name, self._seconds))
        if isinstance(error, requests.exceptions.SSLError):
            return SourceUnavailable(
                f"{self.name} cannot be trusted: {_reason(error)}; check store.prometheus.tls_config"
            )
        return SourceUnavailable(f"{self.name} cannot be reached: {_reason(error)}")

    def _document(self, status: int, kind: str, body: bytes) -> dict[str, Any]:
        """The JSON document of a success. Raises QueryError for everything else."""
        try:
            document = orjson.loads(body)
        except orjson.JSONDecodeError:
            document = None
        if isinstance(document, dict) and document.get("status") == "success" and status // 100 == 2:
            return document
        if isinstance(document, dict) and isinstance(document.get("error"), str):
            known = _ERRORS.get(str(document.get("errorType"))) or _BY_STATUS.get(status, SourceUnavailable)
            raise known(f"{self.name} says: {_short(document['error'])}")
        raise SourceUnavailable(self._no_document(status, kind, body))

    def _no_document(self, status: int, kind: str, body: bytes) -> str:
        if status // 100 == 3:
            return (
                f"{self.name} redirects (HTTP {status}): a sign-in stands before it, or it has moved; "
                "give the address that it redirects to as query_url"
            )
        if status in (401, 403):
            return f"{self.name} refuses us (HTTP {status}); check store.prometheus.auth and headers"
        if status == 404:
            return (
                f"{self.name} has no query API (HTTP 404); check query_url, and the path that belongs to it"
            )
        if "html" in kind.lower() or body.lstrip()[:1] == b"<":
            return (
                f"{self.name} answered with a web page (HTTP {status}), not with an engine's JSON: "
                "a proxy or a sign-in stands before it; check query_url"
            )
        said = _short(body[:_SENTENCE].decode(errors="replace"))
        if status // 100 != 2:
            return f"{self.name} answered HTTP {status}" + (f": {said}" if said else "")
        return f"{self.name} gave no JSON of a Prometheus API ({said or 'nothing'}); check query_url"


def _secret(name: str) -> str:
    try:
        text = Path(name).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise SourceUnavailable(f"the secret file {name} cannot be read: {reason}") from error
    if not text.isascii() or not text.isprintable():
        raise SourceUnavailable(f"the secret file {name} holds what no header can carry")
    return text


def _too_slow(name: str, seconds: float) -> str:
    return f"{name} did not answer within {seconds:g} s; narrow the query, or raise store.prometheus.timeout"


def _was_closed(error: requests.exceptions.ConnectionError) -> bool:
    return _caused_by(error, ProtocolError)


def _caused_by(error: BaseException, kind: type[BaseException]) -> bool:
    causes = [*error.args, error.__cause__, error.__context__]
    causes += [getattr(cause, "reason", None) for cause in causes]
    return any(isinstance(cause, kind) for cause in causes)


def _reason(error: BaseException) -> str:
    """The innermost cause in the system's words, without the objects that urllib3 prints."""
    while (inner := getattr(error, "reason", None) or (error.args[0] if error.args else None)) is not None:
        if not isinstance(inner, BaseException):
            break
        error = inner
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.strerror:
            return _short(cause.strerror.lower())
        cause = cause.__cause__ or cause.__context__
    return _short(str(error).rpartition(": ")[2] or type(error).__name__)


def _short(text: str) -> str:
    line = printable(" ".join(text.split()))
    return line if len(line) <= _SENTENCE else line[: _SENTENCE - 3] + "..."
