"""Slurm's commands as a collector sees them: answers from files, and every question remembered."""

from collections.abc import Mapping
from pathlib import Path

from collectors.types import CollectorError

FOLDER = Path(__file__).parent / "fixtures" / "slurm"
MARK = "0123456789abcdef"  # of the stored squeue text

JSON = "squeue --json"
TEXT = "squeue --format"
JOBS = "scontrol job"
NODES = "scontrol node"


def stored(version: str = "22.05") -> dict[str, bytes | CollectorError]:
    """The answers of one cluster, by question."""
    return {
        JSON: (FOLDER / f"squeue-{version}.json").read_bytes(),
        TEXT: (FOLDER / "squeue-22.05.txt").read_bytes(),
        JOBS: (FOLDER / "scontrol-job-22.05.txt").read_bytes(),
        NODES: (FOLDER / "scontrol-node-22.05.txt").read_bytes(),
    }


class FakeCommands:
    """Answers with bytes, or by raising what stands in their place."""

    def __init__(self, answers: Mapping[str, bytes | CollectorError]) -> None:
        self.answers = dict(answers)
        self.asked: list[str] = []

    def begin(self) -> None:
        self.asked.clear()

    def run(self, program: str, *arguments: str) -> bytes:
        what = next((name for name in (JSON, TEXT, JOBS, NODES) if _is(name, program, arguments)), "")
        self.asked.append(what)
        answer = self.answers[what]
        if isinstance(answer, CollectorError):
            raise answer
        return answer


def _is(name: str, program: str, arguments: tuple[str, ...]) -> bool:
    asked, _, word = name.partition(" ")
    return asked == program and any(one == word or one.startswith(f"{word}=") for one in arguments)
