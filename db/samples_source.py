"""Opens what queries are answered from: the store, or the store and a remote engine as one.

Everything that reads samples (pages, the HTTP API, `strata query`, the queries' processes) opens it here, so
that one line of configuration changes it for all.
"""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from db.remote_settings import PrometheusSettings
from db.settings import Settings
from db.store import SampleStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from db.joined_source import JoinedSource


def open_samples_source(path: Path, engine: PrometheusSettings | None) -> "SampleStore | JoinedSource":
    """The samples file, joined with the engine where there is one. Nothing is asked of the engine yet.
    Raises StoreError; SourceUnavailable for TLS files that cannot be used."""
    if engine is None:
        return SampleStore.open(path)
    # The client takes a tenth of a second to import: not for those who have no engine.
    from db.joined_source import JoinedSource
    from db.remote import RemoteEngine

    remote = RemoteEngine(engine)
    return JoinedSource(SampleStore.open(path), remote, writes=engine.is_written)


def source_of(settings: Settings) -> "Callable[[], SampleStore | JoinedSource]":
    """Opens the source of these settings; can be sent to another process."""
    return partial(open_samples_source, settings.samples_path, settings.store.prometheus)
