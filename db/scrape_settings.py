"""Prometheus's scrape configuration: the same field names, defaults and checks (prometheus/config/config.go).

Durations are seconds, sizes are bytes, 0 means "no limit" for every limit. `ScrapeConfig` objects that leave
this module are resolved: nothing is left to inherit from `global`, and every path is absolute.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from db.config_types import ByteSize, Count, Duration, Name, Section, Switch, Text
from db.http_settings import HttpClientSettings, join_folder
from db.relabel_settings import RelabelConfig

ScrapeProtocol = Literal[
    "OpenMetricsText1.0.0", "OpenMetricsText0.0.1", "PrometheusText1.0.0", "PrometheusText0.0.4"
]
DEFAULT_PROTOCOLS: tuple[ScrapeProtocol, ...] = (
    "OpenMetricsText1.0.0",
    "OpenMetricsText0.0.1",
    "PrometheusText1.0.0",
    "PrometheusText0.0.4",
)
DEFAULT_INTERVAL_SECONDS = 60.0
DEFAULT_TIMEOUT_SECONDS = 10.0

_FILE_PATTERN = re.compile(r"[^*]*(\*[^/]*)?\.(json|yml|yaml|JSON|YML|YAML)")
_GLOB_PATTERN = re.compile(r"[^*]*(\*[^/]*)?")
_LIMITS = (
    "body_size_limit",
    "sample_limit",
    "target_limit",
    "label_limit",
    "label_name_length_limit",
    "label_value_length_limit",
)


class _Limits(Section):
    """Limits a job inherits from `global` where it does not set them."""

    body_size_limit: ByteSize = 0
    sample_limit: Count = 0
    target_limit: Count = 0
    label_limit: Count = 0
    label_name_length_limit: Count = 0
    label_value_length_limit: Count = 0
    scrape_protocols: tuple[ScrapeProtocol, ...] = ()

    @field_validator("scrape_protocols", mode="before")
    @classmethod
    def _protocols_given_once(cls, value: Any) -> Any:
        if isinstance(value, list):
            if not value:
                raise ValueError("is empty; name at least one protocol or leave it out")
            if len({str(item).lower() for item in value}) != len(value):
                raise ValueError("names a protocol twice")
        return value


class GlobalConfig(_Limits):
    """Defaults for every job."""

    scrape_interval: Duration = 0.0
    scrape_timeout: Duration = 0.0
    # Prometheus adds these when it sends samples out, never to what it stores; neither does Strata.
    external_labels: dict[Name, Text] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _timeout_fits(self) -> Self:
        if self.scrape_timeout > (self.scrape_interval or DEFAULT_INTERVAL_SECONDS):
            raise ValueError("global scrape timeout greater than scrape interval; lower scrape_timeout")
        return self

    @property
    def interval_seconds(self) -> float:
        return self.scrape_interval or DEFAULT_INTERVAL_SECONDS

    @property
    def timeout_seconds(self) -> float:
        return self.scrape_timeout or min(DEFAULT_TIMEOUT_SECONDS, self.interval_seconds)


class TargetGroup(Section):
    """Addresses with the labels they share: an item of static_configs, of a file_sd file, of http_sd."""

    targets: tuple[Text, ...] = ()
    labels: dict[Name, Text] = Field(default_factory=dict)


class FileSdConfig(Section):
    """Target groups in JSON or YAML files; the last path element may be a pattern."""

    files: tuple[Text, ...]
    refresh_interval: Duration = 300.0

    @field_validator("files")
    @classmethod
    def _readable_kinds(cls, files: tuple[str, ...]) -> tuple[str, ...]:
        if not files:
            raise ValueError("is empty; name at least one file")
        for name in files:
            if not _FILE_PATTERN.fullmatch(name):
                raise ValueError(
                    f"cannot take {name!r}: the name has to end in .json, .yml or .yaml, "
                    "and only its last part may hold a '*'"
                )
        return files


class HttpSdConfig(HttpClientSettings):
    """Target groups as JSON from a URL."""

    url: Text
    refresh_interval: Duration = 60.0

    @field_validator("url")
    @classmethod
    def _web_address(cls, url: str) -> str:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise ValueError(f"{url!r} has to be a full http:// or https:// address")
        return url


class ScrapeConfig(HttpClientSettings, _Limits):
    """One job."""

    job_name: Name
    scrape_interval: Duration = 0.0
    scrape_timeout: Duration = 0.0
    metrics_path: Text = "/metrics"
    scheme: Text = "http"
    params: dict[Name, tuple[Text, ...]] = Field(default_factory=dict)
    honor_labels: Switch = False
    honor_timestamps: Switch = True
    enable_compression: Switch = True
    fallback_scrape_protocol: ScrapeProtocol | None = None
    static_configs: tuple[TargetGroup, ...] = ()
    file_sd_configs: tuple[FileSdConfig, ...] = ()
    http_sd_configs: tuple[HttpSdConfig, ...] = ()
    relabel_configs: tuple[RelabelConfig, ...] = ()
    metric_relabel_configs: tuple[RelabelConfig, ...] = ()

    @model_validator(mode="after")
    def _static_targets_are_addresses(self) -> Self:
        if self.relabel_configs:
            return self  # they may build the address out of anything
        for group in self.static_configs:
            for target in group.targets:
                if "/" in target:
                    raise ValueError(
                        f"{target!r} is not a host:port; give the path as metrics_path and http(s) as scheme"
                    )
        return self

    def resolved(self, defaults: GlobalConfig, folder: Path) -> Self:
        """The job with everything it inherits filled in and its paths made absolute.

        Raises ValueError for a timeout above the interval, which only shows once both are known.
        """
        interval = self.scrape_interval or defaults.interval_seconds
        if self.scrape_timeout > interval:
            raise ValueError(
                f"scrape timeout greater than scrape interval for job {self.job_name!r}; lower scrape_timeout"
            )
        update: dict[str, Any] = {
            name: getattr(self, name) or getattr(defaults, name) for name in (*_LIMITS, "scrape_protocols")
        }
        update["scrape_protocols"] = update["scrape_protocols"] or DEFAULT_PROTOCOLS
        update["scrape_interval"] = interval
        update["scrape_timeout"] = self.scrape_timeout or min(defaults.timeout_seconds, interval)
        update["file_sd_configs"] = tuple(
            source.model_copy(update={"files": tuple(join_folder(folder, name) for name in source.files)})
            for source in self.file_sd_configs
        )
        update["http_sd_configs"] = tuple(
            source.model_copy(update=source.resolved_http(folder)) for source in self.http_sd_configs
        )
        return self.model_copy(update=update | self.resolved_http(folder))


class PrometheusFile(Section):
    """The parts of a prometheus.yml that are used."""

    defaults: GlobalConfig = Field(default=GlobalConfig(), alias="global")
    scrape_configs: tuple[ScrapeConfig, ...] = ()
    scrape_config_files: tuple[Text, ...] = ()

    @field_validator("scrape_config_files")
    @classmethod
    def _patterns(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if not _GLOB_PATTERN.fullmatch(name):
                raise ValueError(f"cannot take {name!r}: only the last part of a path may hold a '*'")
        return names


class ScrapeConfigFile(Section):
    """A file that scrape_config_files names."""

    scrape_configs: tuple[ScrapeConfig, ...] = ()


def repeated_job(configs: Sequence[ScrapeConfig]) -> int | None:
    """Index of the first job whose name an earlier one has."""
    seen: set[str] = set()
    for index, config in enumerate(configs):
        if config.job_name in seen:
            return index
        seen.add(config.job_name)
    return None
