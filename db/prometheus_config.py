"""Takes an existing prometheus.yml as it is: what it scrapes, and by name what of it is not supported."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from db.config_errors import SettingsError, first_error, placed
from db.config_types import Section
from db.prometheus_fields import UnusedField, has_unused_discovery, leave_out_unused
from db.scrape_settings import GlobalConfig, PrometheusFile, ScrapeConfig, ScrapeConfigFile
from db.yaml_lines import Document, YamlError, read_yaml

Model = TypeVar("Model", bound=Section)


@dataclass(frozen=True, slots=True)
class PrometheusConfig:
    """The jobs of a prometheus.yml and of its scrape_config_files, resolved."""

    jobs: tuple[ScrapeConfig, ...]
    external_labels: Mapping[str, str]


def load_prometheus_config(path: Path) -> tuple[PrometheusConfig, list[str]]:
    """Read a prometheus.yml; the strings are warnings, `file:line: what is not supported and why it matters`.

    Literal passwords are accepted, since the file is taken as it is.
    Raises SettingsError for what Prometheus would refuse, and for a file that cannot be read.
    """
    document, data, unused = _read(path)
    main = _validated(PrometheusFile, data, path, document)
    warnings = _warnings(path, document, unused)
    jobs = _resolve(main.scrape_configs, main.defaults, path, document)
    places = {job.job_name: str(path) for job in jobs}
    for pattern in main.scrape_config_files:
        for extra in glob_last(path.parent / pattern):
            more, more_warnings = _load_extra(extra, main.defaults)
            for job in more:
                if job.job_name in places:
                    raise SettingsError(
                        str(extra),
                        f"job {job.job_name!r} is already in {places[job.job_name]}; rename one",
                    )
                places[job.job_name] = str(extra)
            jobs += more
            warnings += more_warnings
    return PrometheusConfig(tuple(jobs), main.defaults.external_labels), warnings


def glob_last(pattern: Path) -> list[Path]:
    """Paths that match a pattern whose last part may hold `*`, `?` and `[...]`, sorted."""
    if not any(sign in pattern.name for sign in "*?["):
        return [pattern] if pattern.exists() else []
    return sorted(pattern.parent.glob(pattern.name))


def _load_extra(path: Path, defaults: GlobalConfig) -> tuple[list[ScrapeConfig], list[str]]:
    document, data, unused = _read(path)
    extra = _validated(ScrapeConfigFile, data, path, document)
    return _resolve(extra.scrape_configs, defaults, path, document), _warnings(path, document, unused)


def _read(path: Path) -> tuple[Document, Any, list[UnusedField]]:
    try:
        document = read_yaml(path)
    except YamlError as error:
        raise SettingsError(f"{path}:{error.line}", error.reason) from error
    except OSError as error:
        raise SettingsError(str(path), f"cannot be read: {error.strerror or error}") from error
    data, unused = leave_out_unused({} if document.data is None else document.data)
    return document, data, unused


def _validated(model: type[Model], data: Any, path: Path, document: Document) -> Model:
    try:
        return model.model_validate(data)
    except ValidationError as error:
        place, reason = first_error(error, document.line)
        raise SettingsError(f"{path}:{document.line(place)}", reason) from error


def _resolve(
    configs: tuple[ScrapeConfig, ...], defaults: GlobalConfig, path: Path, document: Document
) -> list[ScrapeConfig]:
    """Jobs with everything filled in; raises SettingsError for a repeated name or a late contradiction."""
    resolved: dict[str, ScrapeConfig] = {}
    for index, config in enumerate(configs):
        place = f"{path}:{document.line(('scrape_configs', index))}"
        if config.job_name in resolved:
            raise SettingsError(place, f"job {config.job_name!r} is given twice; rename one")
        try:
            resolved[config.job_name] = config.resolved(defaults, path.parent)
        except ValueError as error:
            line = document.line(("scrape_configs", index, "scrape_timeout"))
            raise SettingsError(f"{path}:{line}", str(error)) from error
    return list(resolved.values())


def _warnings(path: Path, document: Document, unused: list[UnusedField]) -> list[str]:
    lines = []
    for field in unused:
        job = _job_at(document.data, field.path)
        prefix = f"job {job.get('job_name')!r}: " if job is not None else ""
        lines.append((document.line(field.path), prefix + field.text))
    for index, job in enumerate(_raw_jobs(document.data)):
        own = ("static_configs", "file_sd_configs", "http_sd_configs")
        if has_unused_discovery(job) and not any(job.get(name) for name in own):
            reason = f"job {job.get('job_name')!r} scrapes nothing: its only discovery is not supported"
            lines.append((document.line(("scrape_configs", index)), reason))
    return [placed(f"{path}:{line}", reason) for line, reason in sorted(lines)]


def _raw_jobs(data: Any) -> list[Any]:
    jobs = data.get("scrape_configs") if isinstance(data, dict) else None
    return jobs if isinstance(jobs, list) else []


def _job_at(data: Any, path: tuple[str | int, ...]) -> dict[str, Any] | None:
    if len(path) > 2 and path[0] == "scrape_configs" and isinstance(path[1], int):
        job = _raw_jobs(data)[path[1]]
        return job if isinstance(job, dict) else None
    return None
