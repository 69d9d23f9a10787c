"""Fields that Prometheus knows and Strata does not use: each is named, with what its absence means.

Known up to Prometheus 3.x. A name that is neither here nor in `db.scrape_settings` is an error, as it is
in Prometheus; the exception is `<anything>_sd_configs`, because discovery kinds are added by plugins.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from db.yaml_lines import KeyPath

_SEND = "samples are not sent to or read from other systems"
_RULES = "no rules are evaluated from this file"
_NATIVE = "native histograms are not scraped; their classic buckets are"
_NAMES = "names are taken as the target gives them"
_PROXY = "targets are reached without a proxy, so those behind it will show as down"
_SECRETS = "there is no secret manager; give the secret in a file"
_LOG = "failures are on the Sources page and in the log"

_FILE = {
    "runtime": "it tunes the Go runtime",
    "alerting": "no alerts are sent to these Alertmanagers",
    "rule_files": _RULES,
    "storage": "set storage.retention in strata.yaml",
    "tracing": "Strata sends no traces",
    "remote_write": _SEND,
    "remote_read": _SEND,
    "otlp": "Strata takes no OTLP",
}
_GLOBAL_AND_JOB = {
    "scrape_native_histograms": _NATIVE,
    "always_scrape_classic_histograms": _NATIVE,
    "convert_classic_histograms_to_nhcb": _NATIVE,
    "extra_scrape_metrics": "the extra series are not written",
    "keep_dropped_targets": "dropped targets are counted, not kept",
    "metric_name_validation_scheme": _NAMES,
    "metric_name_escaping_scheme": _NAMES,
    "scrape_failure_log_file": _LOG,
}
_GLOBAL = {
    "evaluation_interval": _RULES,
    "rule_query_offset": _RULES,
    "query_log_file": "queries are not logged to a file",
}
_JOB = {
    "track_timestamps_staleness": "a series with its own timestamps ends when its target no longer shows it",
    "native_histogram_bucket_limit": _NATIVE,
    "native_histogram_min_bucket_factor": _NATIVE,
    "scrape_classic_histograms": _NATIVE,
}
_HTTP = {
    "oauth2": "no token is fetched, so the target will refuse the scrape; use authorization",
    "proxy_url": _PROXY,
    "no_proxy": _PROXY,
    "proxy_from_environment": _PROXY,
    "proxy_connect_header": _PROXY,
    "http_headers": "the headers are not sent",
    "enable_http2": "HTTP/1.1 is spoken, which HTTP/2 servers answer too",
}
_TLS = {
    "cert": "give the certificate as cert_file",
    "key": "give the key as key_file",
    "ca_ref": _SECRETS,
    "cert_ref": _SECRETS,
    "key_ref": _SECRETS,
}
_DISCOVERY = "export its targets to a file_sd or http_sd source"
_PROTO = "PrometheusProto"
_PROTO_REASON = "the protobuf format is not read; text formats are asked for instead"

# Values that ask for what Strata does anyway: leaving them out changes nothing.
_HARMLESS = frozenset({"", "false", "0", "utf8", "allow-utf-8"})


class _Kind(NamedTuple):
    unused: Mapping[str, str]
    sections: Mapping[str, str]


_HTTP_SECTIONS = {"tls_config": "tls", "basic_auth": "basic", "authorization": "authorization"}
_KINDS = {
    "file": _Kind(_FILE, {"global": "global", "scrape_configs": "job"}),
    "global": _Kind(_GLOBAL | _GLOBAL_AND_JOB, {}),
    "job": _Kind(_JOB | _GLOBAL_AND_JOB | _HTTP, _HTTP_SECTIONS | {"http_sd_configs": "http_sd"}),
    "http_sd": _Kind(_HTTP, _HTTP_SECTIONS),
    "tls": _Kind(_TLS, {}),
    "basic": _Kind({"username_ref": _SECRETS, "password_ref": _SECRETS}, {}),
    "authorization": _Kind({"credentials_ref": _SECRETS}, {}),
}


@dataclass(frozen=True, slots=True)
class UnusedField:
    """A field that was left out, where it stands and what its absence means."""

    path: KeyPath
    name: str
    reason: str

    @property
    def text(self) -> str:
        return f"'{self.name}' is not supported: {self.reason}"


def leave_out_unused(data: Any, root: KeyPath = (), kind: str = "file") -> tuple[Any, list[UnusedField]]:
    """The configuration without the fields Strata does not use, and those fields in the order of the file.

    kind: what `data` is: a whole "file", or a list of "job".
    """
    found: list[UnusedField] = []
    return _without_unused(data, kind, root, found), found


def has_unused_discovery(job: Any) -> bool:
    """Does this raw job name a discovery that Strata lacks?"""
    return isinstance(job, dict) and any(_is_unused_discovery(str(name)) for name in job)


def _without_unused(data: Any, kind: str, path: KeyPath, found: list[UnusedField]) -> Any:
    if isinstance(data, list):
        return [_without_unused(item, kind, (*path, index), found) for index, item in enumerate(data)]
    if not isinstance(data, dict):
        return data
    unused, sections = _KINDS[kind]
    kept: dict[str, Any] = {}
    for name, value in data.items():
        here = (*path, name)
        if name in unused:
            if not _is_harmless(value):
                found.append(UnusedField(here, name, unused[name]))
        elif kind == "job" and _is_unused_discovery(name):
            if not _is_harmless(value):
                found.append(UnusedField(here, name, _DISCOVERY))
        elif name == "fallback_scrape_protocol" and value == _PROTO:
            found.append(UnusedField(here, _PROTO, _PROTO_REASON))
        elif name == "scrape_protocols" and isinstance(value, list) and _PROTO in value:
            found.append(UnusedField((*here, value.index(_PROTO)), _PROTO, _PROTO_REASON))
            kept[name] = [item for item in value if item != _PROTO] or None
        else:
            kept[name] = _without_unused(value, sections[name], here, found) if name in sections else value
    return kept


def _is_unused_discovery(name: str) -> bool:
    return name.endswith("_sd_configs") and name not in ("file_sd_configs", "http_sd_configs")


def _is_harmless(value: Any) -> bool:
    if value is None or isinstance(value, list | dict):
        return not value
    return str(value).lower() in _HARMLESS
