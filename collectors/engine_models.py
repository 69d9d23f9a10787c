"""GPU model names from a remote engine, where nothing is scraped here that could show them."""

import time
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from collectors.exposed import MAX_MODEL_LENGTH, MAX_MODELS
from collectors.types import CollectFailed
from db.promql.errors import QueryError
from db.remote_settings import PrometheusSettings

# dcgm-exporter's, AMD's and nvitop's. "name" of nvidia_gpu_exporter and "gpu" of all-smi say nothing by
# themselves.
LABELS: Final = ("modelName", "card_series", "card_model", "devicename")
ASK_EVERY_SECONDS: Final = 300.0
_LOOK_BACK_MS: Final = 3_600_000


class LabelValues(Protocol):
    """The part of `db.remote.RemoteEngine` that is needed. Raises QueryError."""

    def label_values(self, name: str, *, start_ms: int, end_ms: int) -> Sequence[str]: ...


class EngineModels:
    """Called, it gives the names that the engine has had so far; asks it again every few minutes.

    The labels of all its series are looked at: what is no GPU is in no table of hardware and has no price.
    """

    def __init__(
        self,
        settings: PrometheusSettings,
        *,
        engine: LabelValues | None = None,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        """engine: what is asked, by default the one of the settings. clock and now: in seconds."""
        self._settings = settings
        self._engine = engine
        self._clock = clock
        self._now = now
        self._names: frozenset[str] = frozenset()
        self._asked: float | None = None

    def __call__(self) -> frozenset[str]:
        """Raises CollectFailed while it knows none and the engine does not answer."""
        if self._asked is None or self._clock() - self._asked >= ASK_EVERY_SECONDS:
            try:
                self._names |= self._ask()
            except QueryError as error:
                if not self._names:
                    raise CollectFailed(f"which GPUs there are cannot be asked: {error}") from error
            else:
                self._asked = self._clock() if self._names else None
        return self._names

    def _ask(self) -> frozenset[str]:
        if self._engine is None:
            # The client takes a tenth of a second to import: not for those who have no engine.
            from db.remote import RemoteEngine

            self._engine = RemoteEngine(self._settings)
        end_ms = int(self._now() * 1000)
        found = {
            name
            for label in LABELS
            for name in self._engine.label_values(label, start_ms=end_ms - _LOOK_BACK_MS, end_ms=end_ms)
            if 0 < len(name) <= MAX_MODEL_LENGTH
        }
        return frozenset(sorted(found)[:MAX_MODELS])
