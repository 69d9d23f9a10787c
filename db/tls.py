"""TLS towards an endpoint, from its settings: for targets, for discovery and for a remote engine alike."""

import ssl

from db.http_settings import TlsConfig

_VERSIONS = {
    "TLS10": ssl.TLSVersion.TLSv1,
    "TLS11": ssl.TLSVersion.TLSv1_1,
    "TLS12": ssl.TLSVersion.TLSv1_2,
    "TLS13": ssl.TLSVersion.TLSv1_3,
}


class TlsError(ValueError):
    """A file or text that TLS needs cannot be used; the message names it."""


def tls_context(config: TlsConfig) -> ssl.SSLContext | None:
    """None when the machine's usual trust applies. Raises TlsError."""
    if not config.model_copy(update={"server_name": ""}).model_dump(exclude_defaults=True):
        return None
    try:
        context = ssl.create_default_context(cafile=config.ca_file or None, cadata=config.ca or None)
    except (OSError, ValueError) as error:
        raise TlsError(f"tls_config: {config.ca_file or 'ca'} cannot be used: {error}") from error
    if config.insecure_skip_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if config.min_version is not None:
        context.minimum_version = _VERSIONS[config.min_version]
    if config.max_version is not None:
        context.maximum_version = _VERSIONS[config.max_version]
    if config.cert_file:
        try:
            context.load_cert_chain(config.cert_file, config.key_file)
        except (OSError, ValueError) as error:
            names = f"{config.cert_file} with {config.key_file}"
            raise TlsError(f"tls_config: {names} cannot be used: {error}") from error
    return context
