"""Debian's Slurm on loopback: munged, slurmctld and two slurmd with six and four GPUs that are plain files.

Runs as root or as any user, in a folder of its own; nothing of the system's Slurm or munge is touched.
"""

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from collectors.slurm_commands import SlurmCommands
from tests.needs import require_program

START_SECONDS = 60
PROGRAMS = ("munged", "slurmctld", "slurmd", "squeue", "scontrol", "sbatch", "scancel")

CONFIGURATION = """\
ClusterName=strata
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={controller_port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=1,bf_interval=1
MpiDefault=none
GresTypes=gpu
MailProg=/bin/true
MessageTimeout=2
KillWait=2
ReturnToService=2
NodeName=DEFAULT CPUs=16 RealMemory=1000
NodeName=gpu1 NodeHostname=localhost NodeAddr=127.0.0.1 Port={port1} Gres=gpu:h100:6
NodeName=gpu2 NodeHostname=localhost NodeAddr=127.0.0.1 Port={port2} Gres=gpu:h100:2,gpu:l40s:2
PartitionName=train Nodes=gpu[1-2] Default=YES State=UP
PartitionName=debug Nodes=gpu2 MaxTime=1:00:00 State=UP
"""
GPUS = """\
NodeName=gpu1 Name=gpu Type=h100 File={folder}/gpu[0-5]
NodeName=gpu2 Name=gpu Type=h100 File={folder}/gpu[0-1]
NodeName=gpu2 Name=gpu Type=l40s File={folder}/gpu[2-3]
"""


class SlurmCluster:
    """A running cluster."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}
        self.environ = {"PATH": os.environ["PATH"], "SLURM_CONF": str(folder / "slurm.conf"), "LC_ALL": "C"}

    def commands(self) -> SlurmCommands:
        """What the collector uses, spoken to this cluster."""
        return SlurmCommands(self.environ)

    def submit(self, *options: str, name: str = "test") -> int:
        """Id of a job that waits to be cancelled."""
        line = ["sbatch", "--parsable", f"--job-name={name}", "--output=/dev/null", f"--chdir={self.folder}"]
        return int(self._ask(*line, "--ntasks=1", "--mem=1", *options, "--wrap=exec sleep 600"))

    def cancel(self, *jobs: int) -> None:
        self._ask("scancel", *(str(job) for job in jobs))

    def drain(self, node: str, reason: str) -> None:
        self._ask("scontrol", "update", f"nodename={node}", "state=drain", f"reason={reason}")

    def resume(self, node: str) -> None:
        self._ask("scontrol", "update", f"nodename={node}", "state=resume")

    def wait_for(self, what: str, done: Callable[[], bool]) -> None:
        """Until it is so; fails with the daemons' last words."""
        deadline = time.monotonic() + START_SECONDS
        while not done():
            if time.monotonic() > deadline:
                raise AssertionError(f"Slurm: no {what} within {START_SECONDS} s\n{self._last_words()}")
            time.sleep(0.1)

    def states(self) -> dict[int, str]:
        """The queue: job id to state."""
        lines = self._ask("squeue", "--noheader", "--states=all", "--format=%A %T").splitlines()
        return {int(line.split()[0]): line.split()[1] for line in lines}

    def wait_running(self, *jobs: int) -> None:
        self.wait_for(f"jobs {jobs} running", lambda: all(self.states().get(j) == "RUNNING" for j in jobs))

    def wait_ended(self, *jobs: int) -> None:
        ended = {"CANCELLED", None}
        self.wait_for(f"end of jobs {jobs}", lambda: all(self.states().get(j) in ended for j in jobs))

    def start_controller(self) -> None:
        self._start("slurmctld", "slurmctld", "-D", "-f", self.environ["SLURM_CONF"])
        self.wait_for("controller and two idle nodes", self._is_ready)

    def stop_controller(self) -> None:
        self._stop("slurmctld")

    def start(self) -> None:
        (self.folder / "state").mkdir()
        for index in range(6):
            (self.folder / f"gpu{index}").touch()
        for node in ("gpu1", "gpu2"):
            (self.folder / f"spool.{node}").mkdir()
        with ExitStack() as probes:
            sockets = [probes.enter_context(socket.socket()) for _ in range(3)]
            for probe in sockets:
                probe.bind(("127.0.0.1", 0))
            ports = [probe.getsockname()[1] for probe in sockets]
        values = {"folder": self.folder, "user": pwd.getpwuid(os.getuid()).pw_name}
        values |= dict(zip(("controller_port", "port1", "port2"), ports, strict=True))
        (self.folder / "slurm.conf").write_text(CONFIGURATION.format(**values))
        (self.folder / "gres.conf").write_text(GPUS.format(**values))
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        own = {"socket": "munge.socket", "key-file": key.name, "log-file": "munge.log"}
        own |= {"pid-file": "munge.pid", "seed-file": "munge.seed"}
        options = [f"--{name}={self.folder / file}" for name, file in own.items()]
        self._start("munged", "munged", "--foreground", "--force", *options)
        self.wait_for("munge socket", (self.folder / "munge.socket").exists)
        for node in ("gpu1", "gpu2"):
            self._start(node, "slurmd", "-D", "-N", node, "-f", self.environ["SLURM_CONF"])
        self.start_controller()

    def stop(self) -> None:
        """Everything, jobs first: a step outlives its slurmd."""
        if "slurmctld" in self._daemons:
            with suppress(AssertionError, subprocess.TimeoutExpired):
                if jobs := [job for job, state in self.states().items() if state in ("RUNNING", "PENDING")]:
                    self.cancel(*jobs)
                    self.wait_ended(*jobs)
        for name in reversed(list(self._daemons)):
            self._stop(name)
        for process in self._left_over():
            with suppress(ProcessLookupError):
                os.kill(process, 9)

    def _is_ready(self) -> bool:
        if self._daemons["slurmctld"].poll() is not None:
            raise AssertionError(f"slurmctld ended\n{self._last_words()}")
        done = self._run("sinfo", "--noheader", "--Node", "--partition=train", "--format=%T")
        return done.returncode == 0 and [*done.stdout.split()] in (["idle"] * 2, ["mixed"] * 2)

    def _ask(self, *command: str) -> str:
        done = self._run(*command)
        assert done.returncode == 0, f"{command}: {done.stderr}\n{self._last_words()}"
        return done.stdout

    def _run(self, *command: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            command, env=self.environ, capture_output=True, text=True, timeout=60, check=False
        )

    def _start(self, name: str, *command: str) -> None:
        with (self.folder / f"{name}.out").open("ab") as log:
            self._daemons[name] = subprocess.Popen(
                [require_program(command[0]), *command[1:]],
                cwd=self.folder,
                env=self.environ,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def _stop(self, name: str) -> None:
        process = self._daemons.pop(name)
        process.terminate()
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _left_over(self) -> Iterator[int]:
        """Processes that were started with this cluster's configuration and still run."""
        mark = f"SLURM_CONF={self.environ['SLURM_CONF']}".encode()
        for entry in Path("/proc").iterdir():
            with suppress(OSError):
                if entry.name.isdecimal() and mark in (entry / "environ").read_bytes().split(b"\0"):
                    yield int(entry.name)

    def _last_words(self) -> str:
        logs = sorted(self.folder.glob("*.out"))
        return "\n".join(f"{log.name}: {log.read_text(errors='replace')[-1500:]}" for log in logs)


@contextmanager
def slurm_cluster() -> Iterator[SlurmCluster]:
    """A cluster for as long as the block runs; skips where Slurm is not installed."""
    for program in PROGRAMS:
        require_program(program)
    # Not pytest's folder: munge's socket has to have a short path.
    folder = Path(tempfile.mkdtemp(prefix="strata-slurm-"))
    folder.chmod(0o755)
    cluster = SlurmCluster(folder)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(folder)
