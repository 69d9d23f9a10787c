"""From discovered addresses to scrape targets: Prometheus 3's rules for labels, URL, interval and timeout.

As in Prometheus 3, no default port is added to `__address__` (2.x added :80 or :443), so `instance` is what
the configuration or discovery said.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from urllib.parse import quote, urlencode

from collectors.relabel import Relabeller
from db.config_types import format_duration, parse_duration
from db.labels import Labels, labels_from
from db.scrape_settings import ScrapeConfig, TargetGroup

_ADDRESS = re.compile(r"(?:\[[0-9A-Fa-f:.]+(?:%[\w.~-]+)?\]|[^\s\[\]/?#@:\\%]+)(?::([0-9]{1,5}))?")
# The characters Go's net/url leaves alone in a path, so that a target's URL reads as in Prometheus.
_PATH_SAFE = "/:@&=+$,;-_.~"


@dataclass(frozen=True, slots=True)
class Target:
    """One scrape target after relabelling.

    job: the job's name in the configuration (the label `job` may differ). url: complete, already encoded
    (for aiohttp: `yarl.URL(url, encoded=True)`). labels: final ones, with job and instance. discovered:
    before relabelling. Two targets of one key may differ in interval, limits or credentials after a reload.
    """

    job: str
    url: str
    labels: Labels
    discovered: Labels
    interval_seconds: float
    timeout_seconds: float
    config: ScrapeConfig = field(repr=False)
    key: str = field(init=False, repr=False, compare=False)  # stable identity: job, URL and labels

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", repr((self.job, self.url, self.labels)))

    @property
    def instance(self) -> str:
        return dict(self.labels).get("instance", "")


class BadTarget(ValueError):
    """This address cannot be scraped; the message says why."""


@dataclass(frozen=True, slots=True)
class BuiltTargets:
    """What one job's groups gave: targets (each once), the number that rules dropped, and what was wrong."""

    targets: tuple[Target, ...]
    dropped: int
    errors: tuple[str, ...]


class TargetBuilder:
    """Turns the groups of one job into targets; its relabelling rules are compiled once."""

    def __init__(self, config: ScrapeConfig) -> None:
        self.config = config
        self._relabel = Relabeller(config.relabel_configs)
        self._defaults = {
            "job": config.job_name,
            "__scrape_interval__": format_duration(config.scrape_interval),
            "__scrape_timeout__": format_duration(config.scrape_timeout),
            "__metrics_path__": config.metrics_path,
            "__scheme__": config.scheme,
        }
        self._parameters = {f"__param_{name}": values[0] for name, values in config.params.items() if values}

    def build(self, groups: Iterable[TargetGroup]) -> BuiltTargets:
        """Targets of these groups. Above the job's target_limit there are none, as in Prometheus."""
        found: dict[str, Target] = {}
        dropped = 0
        errors: dict[str, None] = {}
        for group in groups:
            for address in group.targets:
                try:
                    target = self._target({**group.labels, "__address__": address})
                except BadTarget as error:
                    errors[str(error)] = None
                    continue
                if target is None:
                    dropped += 1
                else:
                    found.setdefault(target.key, target)
        limit = self.config.target_limit
        if limit and len(found) > limit:
            errors[f"{len(found)} targets exceed target_limit {limit}; none of them is scraped"] = None
            found = {}
        return BuiltTargets(tuple(found.values()), dropped, tuple(errors))

    def _target(self, discovered: dict[str, str]) -> Target | None:
        """None when a rule drops it. Raises BadTarget."""
        given = {name: value for name, value in discovered.items() if value}
        before = {**self._parameters, **self._defaults, **given}
        after = self._relabel(before)
        if after is None:
            return None
        address = after.get("__address__", "")
        url = _url(address, after, self.config.params)
        interval, timeout = self._times(after, address)
        after.setdefault("instance", address)
        return Target(
            job=self.config.job_name,
            url=url,
            labels=labels_from({name: value for name, value in after.items() if not name.startswith("__")}),
            discovered=labels_from(before),
            interval_seconds=interval,
            timeout_seconds=timeout,
            config=self.config,
        )

    def _times(self, labels: Mapping[str, str], address: str) -> tuple[float, float]:
        interval = _seconds(labels, "__scrape_interval__", address)
        timeout = _seconds(labels, "__scrape_timeout__", address)
        if timeout > interval:
            raise BadTarget(
                f"target {address!r}: scrape timeout {timeout:g}s is longer than {interval:g}s interval"
            )
        return interval, timeout


def _seconds(labels: Mapping[str, str], name: str, address: str) -> float:
    try:
        seconds = parse_duration(labels.get(name, ""))
    except ValueError as error:
        raise BadTarget(f"target {address!r}: {name} {error}") from error
    if seconds <= 0:
        raise BadTarget(f"target {address!r}: {name} cannot be 0")
    return seconds


def _url(address: str, labels: Mapping[str, str], params: Mapping[str, tuple[str, ...]]) -> str:
    """The URL to scrape. Raises BadTarget."""
    if not address:
        raise BadTarget("a target has no address (its __address__ label is empty after relabelling)")
    if "/" in address:
        raise BadTarget(f"target {address!r} is not a host:port; give the path as metrics_path")
    match = _ADDRESS.fullmatch(address)
    if match is None or int(match[1] or 0) > 65535:
        raise BadTarget(f"target {address!r} is not a host:port")
    scheme = labels.get("__scheme__", "")
    if scheme not in ("http", "https"):
        raise BadTarget(f"target {address!r}: scheme {scheme!r} is neither http nor https")
    path = labels.get("__metrics_path__", "")
    if path and not path.startswith("/"):
        path = f"/{path}"
    query = {name: list(values) for name, values in params.items()}
    for name, value in labels.items():
        if name.startswith("__param_"):
            query[name.removeprefix("__param_")] = [value, *query.get(name.removeprefix("__param_"), [])[1:]]
    encoded = urlencode(sorted(query.items()), doseq=True)
    return f"{scheme}://{address}{quote(path, safe=_PATH_SAFE)}{'?' if encoded else ''}{encoded}"
