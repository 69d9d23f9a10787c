"""The requests that the simulated model servers hold at a time, as columns: one row, one request."""

from dataclasses import dataclass, fields

import numpy as np

from collectors.demo_cluster import Cluster
from db.nan import BoolArray, FloatArray, IntArray

REASONS = ("stop", "length", "abort", "error", "repetition")
STOP, LENGTH, ABORT, ERROR = 0, 1, 2, 3
_LENGTH_SHARE, _ERROR_SHARE = 0.08, 0.0005
_BLOCK_TOKENS = 16
_PROMPT_SPREAD, _OUTPUT_SPREAD = 0.7, 0.6  # of the logarithm: traffic has a long tail
_LONGEST_OUTPUT = 4_096


@dataclass(slots=True, eq=False)
class Requests:
    """Rows in order of arrival. Times are seconds since the simulation's start, NaN for "not yet".

    admitted: into the running batch, the last time; first_admitted: the first. ready: its prefill is done
    and it decodes. generated: output tokens so far, with the fraction of the next one.
    """

    replica: IntArray
    arrived: FloatArray
    admitted: FloatArray
    first_admitted: FloatArray
    ready: FloatArray
    first_token: FloatArray
    prompt: IntArray
    cached: IntArray
    output: IntArray
    max_tokens: IntArray
    generated: FloatArray
    preemptions: IntArray
    reason: IntArray

    def __len__(self) -> int:
        return len(self.replica)

    @property
    def waiting(self) -> BoolArray:
        return np.isnan(self.admitted)

    @property
    def cache_tokens(self) -> FloatArray:
        """Tokens of the KV cache that each takes while it runs; what a prefill has to compute again."""
        return self.prompt + self.generated

    def picked(self, rows: BoolArray | IntArray) -> "Requests":
        return Requests(*(getattr(self, one.name)[rows] for one in fields(self)))

    def joined(self, later: "Requests") -> "Requests":
        return Requests(
            *(np.concatenate((getattr(self, one.name), getattr(later, one.name))) for one in fields(self))
        )


def no_requests() -> Requests:
    return Requests(*(np.empty(0, dtype=_dtype(one.name)) for one in fields(Requests)))


def _dtype(name: str) -> type:
    whole = {"replica", "prompt", "cached", "output", "max_tokens", "preemptions", "reason"}
    return np.int64 if name in whole else np.float64


class Traffic:
    """Draws the requests that arrive."""

    def __init__(self, cluster: Cluster) -> None:
        self._prompt = cluster.per_replica("prompt_tokens")
        self._output = cluster.per_replica("output_tokens")
        self._cached = cluster.per_replica("cached_share")
        self._longest = cluster.per_replica("max_model_len").astype(np.int64)

    def arrive(
        self, random: np.random.Generator, second: int, per_second: FloatArray, lengths: FloatArray
    ) -> Requests:
        """Those of one second. per_second: per replica; lengths: per replica, times the usual."""
        counts = random.poisson(per_second)
        replica = np.repeat(np.arange(len(counts)), counts)
        total = len(replica)
        arrived = second + random.random(total)
        arrived = arrived[np.lexsort((arrived, replica))]
        output = np.clip(
            np.rint(_lognormal(random, (self._output * lengths)[replica], _OUTPUT_SPREAD)), 1, _LONGEST_OUTPUT
        ).astype(np.int64)
        usual = _lognormal(random, self._prompt[replica], _PROMPT_SPREAD)
        room = self._longest[replica] - output
        prompt = np.clip(np.rint(usual * lengths[replica]), 4, room).astype(np.int64)
        # Only the usual part of a prompt was seen before.
        shared = usual * self._cached[replica] * random.uniform(0.4, 1.6, total)
        cached = np.minimum(shared, prompt - 1).astype(np.int64) // _BLOCK_TOKENS * _BLOCK_TOKENS
        lot = random.random(total)
        reason = np.where(lot < _ERROR_SHARE, ERROR, np.where(lot < _LENGTH_SHARE, LENGTH, STOP))
        ladder = 2 ** np.ceil(np.log2(output + 1)).astype(np.int64)
        unset = np.full(total, np.nan)
        return Requests(
            replica=replica,
            arrived=arrived,
            admitted=unset,
            first_admitted=unset.copy(),
            ready=unset.copy(),
            first_token=unset.copy(),
            prompt=prompt,
            cached=cached,
            output=output,
            max_tokens=np.where(reason == LENGTH, output, ladder),
            generated=np.zeros(total),
            preemptions=np.zeros(total, dtype=np.int64),
            reason=reason,
        )


def _lognormal(random: np.random.Generator, mean: FloatArray, spread: float) -> FloatArray:
    drawn: FloatArray = mean * np.exp(spread * random.standard_normal(len(mean)) - spread**2 / 2)
    return drawn
