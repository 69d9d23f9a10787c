"""From a job's settings to the options its requests are made with: credentials, TLS, limits."""

import ssl
from pathlib import Path

from collectors.fetch import Credentials, FetchError, FetchOptions
from db.http_settings import HttpClientSettings, TlsConfig
from db.scrape_settings import ScrapeConfig
from db.tls import TlsError
from db.tls import tls_context as usual_context


def scrape_options(config: ScrapeConfig) -> FetchOptions:
    """Options for every target of a job. Raises FetchError for TLS files that cannot be used."""
    return FetchOptions(
        protocols=config.scrape_protocols,
        compression=config.enable_compression,
        follow_redirects=config.follow_redirects,
        body_size_limit=config.body_size_limit,
        credentials=_credentials(config),
        tls=tls_context(config.tls_config),
        tls_server_name=config.tls_config.server_name,
    )


def document_options(settings: HttpClientSettings, body_size_limit: int) -> FetchOptions:
    """Options for something other than a metrics page. Raises FetchError like `scrape_options`."""
    return FetchOptions(
        protocols=(),
        follow_redirects=settings.follow_redirects,
        body_size_limit=body_size_limit,
        credentials=_credentials(settings),
        tls=tls_context(settings.tls_config),
        tls_server_name=settings.tls_config.server_name,
    )


def tls_context(config: TlsConfig) -> ssl.SSLContext | None:
    """None when the machine's usual trust applies. Raises FetchError naming the file that cannot be used."""
    try:
        return usual_context(config)
    except TlsError as error:
        raise FetchError(str(error)) from error


def _credentials(settings: HttpClientSettings) -> Credentials | None:
    basic, authorization = settings.basic_auth, settings.authorization
    if basic is not None:
        return Credentials(
            username=basic.username,
            username_file=_path(basic.username_file),
            password=basic.password,
            password_file=_path(basic.password_file),
        )
    if authorization is not None:
        return Credentials(
            scheme=authorization.type,
            token=authorization.credentials,
            token_file=_path(authorization.credentials_file),
        )
    return None


def _path(name: str) -> Path | None:
    return Path(name) if name else None
