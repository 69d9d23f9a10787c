"""How fresh a host or a GPU is, as a sign."""

from app.analysis.freshness import freshness
from app.widgets.status import FRESHNESS_SIGNS, Sign

# What a host or GPU summary does not know: how often it should report. The usual scrape interval.
USUAL_INTERVAL_SECONDS = 15.0


def freshness_sign(
    newest_ms: int | None, now_ms: int, interval_seconds: float = USUAL_INTERVAL_SECONDS
) -> Sign:
    return FRESHNESS_SIGNS[freshness(newest_ms, interval_seconds, now_ms)]
