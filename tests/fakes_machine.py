"""A machine's /proc and /sys in one text file: hundreds of one-line files read better together.

`>>> path = text` is a file of one line, `>>> path -> target` a symbolic link, and `>>> path` a file whose
lines follow.
"""

from dataclasses import dataclass
from pathlib import Path

TREES = Path(__file__).parent / "fixtures" / "proc"
MARK = ">>> "


@dataclass(frozen=True)
class Machine:
    """Roots to hand to the collector."""

    proc: Path
    sys: Path
    udev: Path
    root: Path


def unpack(name: str, into: Path) -> Machine:
    """Write the tree `name` into the empty folder `into`."""
    lines = (TREES / f"{name}.tree").read_text().splitlines()
    starts = [number for number, line in enumerate(lines) if line.startswith(MARK)]
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        entry = lines[start].removeprefix(MARK)
        target, is_link, link = entry.partition(" -> ")
        place, is_line, text = entry.partition(" = ")
        path = into / (target if is_link else place)
        path.parent.mkdir(parents=True, exist_ok=True)
        if is_link:
            path.symlink_to(link)
        else:
            path.write_text((text if is_line else "\n".join(lines[start + 1 : end])) + "\n")
    return Machine(into / "proc", into / "sys", into / "udev", into / "root")
