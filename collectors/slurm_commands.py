"""How Slurm is asked: its own commands, found by absolute path, with a time limit and without a shell.

Every command is one request to slurmctld, which schedules everybody's jobs meanwhile: few are sent, and a
controller that does not answer is not asked again within the same reading. Slurm's client tries for up to
MessageTimeout (10 s by default) to reach a controller, and one without its configuration for a minute.
"""

import os
import selectors
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, Protocol

from collectors.types import CollectFailed, Unsupported

# Where sites put Slurm when not on the PATH of a service: from source, Bright/BCM, DeepOps, AWS, Azure.
USUAL_FOLDERS: Final = (
    "/usr/bin",
    "/usr/local/bin",
    "/opt/slurm/bin",
    "/usr/local/slurm/bin",
    "/cm/shared/apps/slurm/current/bin",
)
# A reading has to end before the runner gives it up for hanging (collectors.local.STUCK_SECONDS).
READING_SECONDS: Final = 9.5
# 10,000 jobs are about 50 MB of JSON in Slurm 22.05 and twice that in 24.05.
MAX_OUTPUT_BYTES: Final = 256 << 20
_MAX_ERROR_BYTES: Final = 16 << 10
_MAX_REASON_LENGTH: Final = 200
_CHUNK_BYTES: Final = 1 << 20
# Of the caller's environment only what locates and opens the controller: SQUEUE_FORMAT and its like would
# change what is printed.
_ENVIRONMENT: Final = (
    "HOME", "USER", "LOGNAME", "TZ", "LD_LIBRARY_PATH", "SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_JWT",
)  # fmt: skip
_NOT_CONFIGURED: Final = (
    "Could not establish a configuration source",
    "Unable to process configuration file",
    "Unable to process slurm.conf",
)


class OptionRefused(CollectFailed):
    """This Slurm's command does not know the option, or was built without it."""


class TooMuchOutput(CollectFailed):
    """The answer is larger than is read."""


class Commands(Protocol):
    """Runs one of Slurm's commands: `run("squeue", "--json")` gives its stdout."""

    def run(self, program: str, *arguments: str) -> bytes:
        """Raises Unsupported where Slurm is not installed or configured, CollectFailed in one sentence."""
        ...

    def begin(self) -> None:
        """A new reading: its time starts now."""
        ...


@dataclass(slots=True)
class SlurmCommands:
    """The real ones. `environ` is the caller's environment; `clock` gives seconds for the time limit."""

    environ: Mapping[str, str]
    clock: Callable[[], float] = time.monotonic
    seconds: float = READING_SECONDS
    max_bytes: int = MAX_OUTPUT_BYTES
    folders: tuple[str, ...] = USUAL_FOLDERS
    _ends_at: float = 0.0

    def begin(self) -> None:
        self._ends_at = self.clock() + self.seconds

    def run(self, program: str, *arguments: str) -> bytes:
        path = self._path(program)
        # To a file: a pipe that nobody reads would stop the command.
        with tempfile.TemporaryFile() as errors:
            try:
                process = subprocess.Popen(
                    [path, *arguments],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    env=self._environment(path),
                )
            except OSError as error:
                raise CollectFailed(f"{path} cannot be run: {error.strerror or error}") from error
            try:
                output = self._read(program, process.stdout) if process.stdout is not None else b""
                status = process.wait(timeout=max(0.0, self._ends_at - self.clock()))
            except subprocess.TimeoutExpired as error:
                raise self._late(program) from error
            finally:
                process.kill()
                process.wait()
                if process.stdout is not None:
                    process.stdout.close()
            errors.seek(0)
            told = errors.read(_MAX_ERROR_BYTES).decode(errors="replace")
        if status != 0:
            raise _failure(program, status, told)
        return output

    def _path(self, program: str) -> str:
        # Only absolute folders: "." on the PATH is whatever folder the process was started in.
        named = [one for one in self.environ.get("PATH", "").split(os.pathsep) if Path(one).is_absolute()]
        path = shutil.which(program, path=os.pathsep.join([*named, *self.folders]))
        if path is None:
            raise Unsupported(f"no {program} on the PATH: Slurm's commands are not installed on this machine")
        return path

    def _environment(self, path: str) -> dict[str, str]:
        kept = {name: self.environ[name] for name in _ENVIRONMENT if name in self.environ}
        return kept | {
            "PATH": f"{Path(path).parent}:/usr/bin:/bin",
            "LC_ALL": "C",
            "SLURM_TIME_FORMAT": "%s",  # Unix time: no zone to guess
            "SLURM_BITSTR_LEN": "4096",  # "1-3,5,..." of a large array would hide how many tasks wait
        }

    def _read(self, program: str, stream: IO[bytes]) -> bytes:
        chunks: list[bytes] = []
        size = 0
        with selectors.DefaultSelector() as selector:
            selector.register(stream, selectors.EVENT_READ)
            while True:
                if not selector.select(max(0.0, self._ends_at - self.clock())):
                    raise self._late(program)
                chunk = os.read(stream.fileno(), _CHUNK_BYTES)
                if not chunk:
                    return b"".join(chunks)
                size += len(chunk)
                if size > self.max_bytes:
                    raise TooMuchOutput(
                        f"{program} prints more than {self.max_bytes >> 20} MB: too many jobs to read"
                    )
                chunks.append(chunk)

    def _late(self, program: str) -> CollectFailed:
        return CollectFailed(
            f"{program} did not answer within {self.seconds:g} s: slurmctld is down, busy or out of reach "
            "(see scontrol ping)"
        )


def one_sentence(text: str) -> str:
    """The last line that Slurm's client wrote, printable and short: earlier ones are its attempts."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    last = "".join(one if one.isprintable() else " " for one in lines[-1]) if lines else ""
    return last[:_MAX_REASON_LENGTH]


def _failure(program: str, status: int, told: str) -> Exception:
    if any(sign in told for sign in _NOT_CONFIGURED):
        return Unsupported("Slurm's commands are installed here and know no cluster: set SLURM_CONF")
    reason = one_sentence(told) or f"exit status {status} and no reason"
    lowered = told.lower()
    if any(sign in lowered for sign in ("unrecognized option", "invalid option", "plugin load failure")):
        return OptionRefused(f"{program} does not know what it was asked: {reason}")
    if "permission denied" in lowered:
        return CollectFailed(
            f"{program}: {reason}; let the user that runs Strata see jobs and nodes (PrivateData, Operator)"
        )
    if "munge" in lowered or "authentication" in lowered or "credential" in lowered:
        return CollectFailed(f"{program}: {reason}; is munged running with the cluster's key?")
    if "unable to contact" in lowered or "connection refused" in lowered:
        return CollectFailed(f"slurmctld does not answer {program}: {reason}; see scontrol ping")
    return CollectFailed(f"{program}: {reason}")
