"""What the user may set: `strata.yaml`, overridden by `STRATA_*` in the environment and by the command line.

The file is the one given (`--config`, else `STRATA_CONFIG`), else `strata.yaml` in the working folder, else
`strata.yaml` in the data folder, else none. `STRATA_WEB__PORT=9000` sets `web: {port: 9000}`; a list or a
section is written as YAML in brackets. Relative paths are relative to the file that names them, or to the
working folder. Loading has no side effect, so a reload is: load again, keep the old settings on an error.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, tzinfo
from pathlib import Path
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, ValidationInfo, field_validator

from db.config_errors import SettingsError, first_error
from db.config_types import ByteSize, Count, Duration, Name, Section, Switch, format_duration
from db.price_settings import PriceSettings
from db.prometheus_config import load_prometheus_config
from db.remote_settings import StoreSettings
from db.scrape_settings import GlobalConfig, ScrapeConfig, repeated_job
from db.settings_layers import CONFIG_VARIABLE, Layer, merge
from db.state_settings import StateUrl, absolute_state, refuse_literal_password, state_location
from db.yaml_lines import KeyPath

__all__ = ["FILE_NAME", "Jobs", "Settings", "SettingsError", "load_jobs", "load_settings"]

FILE_NAME = "strata.yaml"
_SYSTEM_ZONE = Path("/etc/localtime")


def _user_path(value: Any) -> Path:
    if not isinstance(value, str | Path) or not str(value):
        raise ValueError("has to be a path")
    return Path(str(value))


def _positive(seconds: float) -> float:
    if seconds <= 0:
        raise ValueError("has to be longer than 0s")
    return seconds


def _not_nothing(size: int) -> int:
    if size == 0:
        raise ValueError("has to be more than 0; leave it empty for no limit")
    return size


UserPath = Annotated[Path, BeforeValidator(_user_path)]
Interval = Annotated[Duration, AfterValidator(_positive)]


class LogSettings(Section):
    """What goes to stderr."""

    format: Literal["logfmt", "json"] = "logfmt"
    level: Literal["debug", "info", "warning", "error"] = "info"


class WebSettings(Section):
    """Where the browser finds Strata."""

    host: Name = "127.0.0.1"
    port: Count = 8501
    allowed_hosts: tuple[Name, ...] = ()

    @field_validator("port")
    @classmethod
    def _is_a_port(cls, port: int) -> int:
        if not 1 <= port <= 65535:
            raise ValueError("has to be between 1 and 65535")
        return port


class CollectorSettings(Section):
    """One of the built-in collectors; without an interval it follows scrape_interval."""

    enabled: Switch = True
    interval: Interval | None = None


class SlurmSettings(CollectorSettings):
    """The cluster's queue, read at a pace that slurmctld does not feel."""

    interval: Interval = 30.0


class HardwareSettings(CollectorSettings):
    """What GPUs can do and cost: constants, but for a GPU that is seen for the first time."""

    interval: Interval = 15.0


class CollectorsSettings(Section):
    """The built-in collectors of this machine."""

    host: CollectorSettings = CollectorSettings()
    nvml: CollectorSettings = CollectorSettings()
    hardware: HardwareSettings = HardwareSettings()
    slurm: SlurmSettings = SlurmSettings()


class StorageSettings(Section):
    """How long samples are kept, how much of the disk they may take, and where the state is.

    state: a URL, which may hold a password when the environment gives it; None for a file beside the samples.
    """

    retention: Interval = 15 * 86400.0
    retention_size: Annotated[ByteSize, AfterValidator(_not_nothing)] | None = None
    state: StateUrl | None = Field(default=None, repr=False)
    state_password_file: UserPath | None = None


class Settings(Section):
    """The whole configuration; durations are seconds."""

    data: UserPath
    timezone: Name = "local"
    log: LogSettings = LogSettings()
    web: WebSettings = WebSettings()
    scrape_interval: Interval = 5.0
    scrape_timeout: Interval | None = None
    prometheus_config: UserPath | None = None
    signal_files: tuple[UserPath, ...] = ()
    scrape_configs: tuple[ScrapeConfig, ...] = ()
    discover: Switch | None = None
    collectors: CollectorsSettings = CollectorsSettings()
    hardware_file: UserPath | None = None
    prices: PriceSettings = PriceSettings()
    storage: StorageSettings = StorageSettings()
    store: StoreSettings = StoreSettings()

    @field_validator("timezone")
    @classmethod
    def _known_zone(cls, name: str) -> str:
        if name != "local":
            try:
                ZoneInfo(name)
            except (ZoneInfoNotFoundError, ValueError, OSError) as error:
                reason = (
                    f"{name!r} is no time zone of this machine; use local, UTC or a name like Europe/Berlin"
                )
                raise ValueError(reason) from error
        return name

    @field_validator("scrape_timeout")
    @classmethod
    def _timeout_fits(cls, timeout: float | None, info: ValidationInfo) -> float | None:
        interval = info.data.get("scrape_interval")
        if timeout is not None and interval is not None and timeout > interval:
            raise ValueError(f"is longer than scrape_interval ({format_duration(interval)}); lower it")
        return timeout

    @property
    def samples_path(self) -> Path:
        return self.data / "samples.db"

    @property
    def state_path(self) -> Path:
        return self.data / "state.db"

    @property
    def state_location(self) -> Path | str:
        """What `db.engine.open_state` opens. A str is a server's URL and may hold a password: not for logs.

        Raises SettingsError when the password's file cannot be read.
        """
        return state_location(self.storage.state, self.storage.state_password_file) or self.state_path

    @property
    def discovers_local_services(self) -> bool:
        """Are the usual loopback ports tried? By default when nothing was configured to be scraped."""
        if self.discover is not None:
            return self.discover
        return not self.scrape_configs and self.prometheus_config is None

    @property
    def scrape_defaults(self) -> GlobalConfig:
        """Interval and timeout for jobs of strata.yaml and for services found on this machine."""
        return GlobalConfig(scrape_interval=self.scrape_interval, scrape_timeout=self.scrape_timeout or 0.0)

    @property
    def zone(self) -> tzinfo:
        """The zone in which days and months begin."""
        if self.timezone != "local":
            return ZoneInfo(self.timezone)
        if not _SYSTEM_ZONE.exists():
            return UTC
        with _SYSTEM_ZONE.open("rb") as file:
            return ZoneInfo.from_file(file, key="local")


@dataclass(frozen=True, slots=True)
class Jobs:
    """Everything to scrape by configuration, resolved, and what of it could not be taken over."""

    configs: tuple[ScrapeConfig, ...]
    warnings: tuple[str, ...]


def load_settings(config: Path | None, overrides: Mapping[str, Any], environ: Mapping[str, str]) -> Settings:
    """Read the configuration: overrides > environment > file > defaults.

    overrides: nested like the file, e.g. `{"web": {"port": 9000}}`; None means "not given".
    Raises SettingsError for an unknown key, a wrong value, and a file that was asked for and cannot be read.
    """
    default_data = _default_data(environ)
    from_environ = Layer.of_environment(environ)
    from_line = Layer.of_overrides(overrides)
    named = config or (Path(environ[CONFIG_VARIABLE]) if environ.get(CONFIG_VARIABLE) else None)
    data_folder = from_line.data.get("data") or from_environ.data.get("data") or default_data
    path = _from_home(named, environ) if named else _usual_file(_from_home(Path(str(data_folder)), environ))
    layers = [from_line, from_environ]
    if path is not None:
        layers.append(Layer.of_file(path))
        refuse_literal_password(layers[-1])
    merged: dict[str, Any] = {"data": str(default_data)}
    for layer in reversed(layers):
        merged = merge(merged, layer.data)
    try:
        settings = Settings.model_validate(merged)
    except ValidationError as error:
        raise _error(error, layers) from error
    return settings.model_copy(update=_absolute_paths(settings, layers, environ))


def load_jobs(settings: Settings) -> Jobs:
    """Jobs of strata.yaml and of its prometheus_config. Raises SettingsError."""
    jobs = list(settings.scrape_configs)
    warnings: list[str] = []
    if settings.prometheus_config is not None:
        prometheus, warnings = load_prometheus_config(settings.prometheus_config)
        jobs += prometheus.jobs
    repeated = repeated_job(jobs)
    if repeated is not None:
        reason = f"job {jobs[repeated].job_name!r} is also in {FILE_NAME}; rename one"
        raise SettingsError(str(settings.prometheus_config), reason)
    return Jobs(tuple(jobs), tuple(warnings))


def _default_data(environ: Mapping[str, str]) -> Path:
    root = environ.get("XDG_DATA_HOME", "")
    if root.startswith("/"):  # the XDG rules: a relative path is to be ignored
        return Path(root) / "strata"
    return _from_home(Path("~/.local/share/strata"), environ)


def _from_home(path: Path, environ: Mapping[str, str]) -> Path:
    """The path with a leading `~` replaced by the user's home; as it is where there is none (a container)."""
    if path.parts[:1] == ("~",) and environ.get("HOME"):
        return Path(environ["HOME"], *path.parts[1:])
    try:
        return path.expanduser()
    except RuntimeError:
        return path


def _usual_file(data_folder: Path) -> Path | None:
    usual = (Path.cwd() / FILE_NAME, data_folder / FILE_NAME)
    return next((path for path in usual if path.is_file()), None)


def _error(error: ValidationError, layers: list[Layer]) -> SettingsError:
    """The first error in the layer that set the value, else in the file."""

    def order(path: KeyPath) -> int:
        for rank, layer in enumerate(layers):
            if layer.has(path):
                return rank * 10_000_000 + (layer.document.line(path) if layer.document else 0)
        return len(layers) * 10_000_000

    path, reason = first_error(error, order)
    owner = next((layer for layer in layers if layer.has(path)), layers[-1])
    return SettingsError(owner.place(path), reason)


def _absolute_paths(settings: Settings, layers: list[Layer], environ: Mapping[str, str]) -> dict[str, Any]:
    """Paths and jobs with nothing left to fill in. Raises SettingsError."""

    def owner(*name: str) -> Layer | None:
        return next((layer for layer in layers if layer.has(name)), None)

    def base(*name: str) -> Path:
        layer = owner(*name)
        return Path.cwd() if layer is None or layer.file is None else layer.file.parent.absolute()

    data = _from_home(settings.data, environ)
    if data.parts[:1] == ("~",):
        raise SettingsError("data", "there is no home folder to keep samples in; give --data DIR")
    update: dict[str, Any] = {"data": base("data") / data}
    for name in ("prometheus_config", "hardware_file"):
        if (path := getattr(settings, name)) is not None:
            update[name] = base(name) / _from_home(path, environ)
    update["signal_files"] = tuple(
        base("signal_files") / _from_home(path, environ) for path in settings.signal_files
    )
    storage: dict[str, Any] = {}
    if settings.storage.state is not None:
        storage["state"] = absolute_state(settings.storage.state, base("storage", "state"))
    if settings.storage.state_password_file is not None:
        named = _from_home(settings.storage.state_password_file, environ)
        storage["state_password_file"] = base("storage", "state_password_file") / named
    update["storage"] = settings.storage.model_copy(update=storage)
    if settings.store.prometheus is not None:
        own = ("store", "prometheus")
        engine = settings.store.prometheus.resolved(base(*own, "auth"), base(*own, "tls_config"))
        update["store"] = settings.store.model_copy(update={"prometheus": engine})
    source = owner("scrape_configs")
    if source is None:
        return update
    folder, jobs = base("scrape_configs"), settings.scrape_configs
    repeated = repeated_job(jobs)
    if repeated is not None:
        reason = f"job {jobs[repeated].job_name!r} is given twice; rename one"
        raise SettingsError(source.place(("scrape_configs", repeated)), reason)
    resolved = []
    for index, job in enumerate(jobs):
        try:
            resolved.append(job.resolved(settings.scrape_defaults, folder))
        except ValueError as error:
            place = source.place(("scrape_configs", index, "scrape_timeout"))
            raise SettingsError(place, str(error)) from error
    return {**update, "scrape_configs": tuple(resolved)}
