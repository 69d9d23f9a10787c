"""Credentials and TLS settings reach the request."""

import asyncio
import ssl
import subprocess
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from collectors.fetch import FetchError, fetch, new_session
from collectors.http_options import document_options, scrape_options, tls_context
from db.http_settings import HttpClientSettings, TlsConfig
from db.scrape_settings import GlobalConfig, ScrapeConfig
from tests.needs import require_program


def job(folder: Path, **settings: Any) -> ScrapeConfig:
    return ScrapeConfig.model_validate({"job_name": "a", **settings}).resolved(GlobalConfig(), folder)


def authorization(config: ScrapeConfig) -> str | None:
    return scrape_options(config).headers(10).get("Authorization")


def test_a_job_without_credentials_sends_none(tmp_path: Path) -> None:
    options = scrape_options(
        job(tmp_path, body_size_limit=5, follow_redirects=False, enable_compression=False)
    )

    assert options.credentials is None
    assert options.tls is None
    assert (options.body_size_limit, options.follow_redirects, options.compression) == (5, False, False)


def test_basic_credentials_are_read_at_every_request(tmp_path: Path) -> None:
    (tmp_path / "pw").write_text("old\n")
    config = job(tmp_path, basic_auth={"username": "ada", "password_file": "pw"})
    before = authorization(config)
    (tmp_path / "pw").write_text("new\n")

    assert before == "Basic YWRhOm9sZA=="
    assert authorization(config) == "Basic YWRhOm5ldw=="


def test_an_authorization_has_its_own_type(tmp_path: Path) -> None:
    config = job(tmp_path, authorization={"type": "Token", "credentials": "t"})

    assert authorization(config) == "Token t"
    assert authorization(job(tmp_path, authorization={"credentials": "t"})) == "Bearer t"


def test_a_missing_secret_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FetchError, match=r"gone cannot be read"):
        authorization(job(tmp_path, authorization={"credentials_file": "gone"}))


def test_tls_versions_and_verification_are_set() -> None:
    context = tls_context(TlsConfig(insecure_skip_verify=True, min_version="TLS13"))

    assert context is not None
    assert context.verify_mode is ssl.CERT_NONE
    assert context.minimum_version is ssl.TLSVersion.TLSv1_3


def test_a_server_name_alone_needs_no_context_of_its_own() -> None:
    assert tls_context(TlsConfig(server_name="gpu")) is None
    assert (
        document_options(HttpClientSettings(tls_config=TlsConfig(server_name="gpu")), 5).tls_server_name
        == "gpu"
    )


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"ca_file": "gone.pem"}, "gone.pem cannot be used"),
        ({"ca": "not PEM"}, "ca cannot be used"),
        ({"cert_file": "gone.pem", "key_file": "k.pem"}, "gone.pem with"),
    ],
)
def test_files_that_cannot_be_used_are_named(tmp_path: Path, settings: dict[str, str], words: str) -> None:
    with pytest.raises(FetchError, match=words):
        scrape_options(job(tmp_path, tls_config=settings))


@pytest.mark.server
def test_a_private_authority_and_a_client_certificate_work_end_to_end(tmp_path: Path) -> None:
    openssl = require_program("openssl")
    pair = ["-keyout", tmp_path / "key.pem", "-out", tmp_path / "cert.pem"]
    name = ["-subj", "/CN=gpu", "-addext", "subjectAltName=DNS:gpu"]
    subprocess.run(
        [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *pair, *name],
        check=True,
        capture_output=True,
    )
    usual = {"ca_file": "cert.pem", "cert_file": "cert.pem", "key_file": "key.pem", "server_name": "gpu"}

    async def answer(request: web.Request) -> web.Response:
        return web.Response(body=b"up 1\n")

    async def page(tls: dict[str, str]) -> bytes:
        server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(tmp_path / "cert.pem"))
        server.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
        server.verify_mode = ssl.CERT_REQUIRED
        application = web.Application()
        application.router.add_get("/metrics", answer)
        runner = web.AppRunner(application, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=server)
        await site.start()
        try:
            url = f"https://127.0.0.1:{runner.addresses[0][1]}/metrics"
            async with new_session() as session:
                return (await fetch(session, url, scrape_options(job(tmp_path, tls_config=tls)), 5)).body
        finally:
            await runner.cleanup()

    assert asyncio.run(page(usual)) == b"up 1\n"
    with pytest.raises(FetchError):
        asyncio.run(page(usual | {"server_name": "other"}))
    with pytest.raises(FetchError):
        asyncio.run(page({"server_name": "gpu"}))
