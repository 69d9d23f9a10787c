"""Builds the stand-in libnvidia-ml.so.1 with the system's compiler."""

import subprocess
from pathlib import Path

from tests.needs import require_program

SOURCE = Path(__file__).parent / "nvml_abi.c"


def build(folder: Path, *, old_driver: bool = False) -> Path:
    """Compile into `folder` and return the library's path; skips the test where there is no compiler."""
    compiler = require_program("cc")
    library = folder / "libnvidia-ml.so.1"
    options = ["-DOLD_DRIVER"] if old_driver else []
    command = [compiler, "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", *options]
    # A soname, as the real library has: dlopen finds an already loaded one by it.
    command += ["-Wl,-soname,libnvidia-ml.so.1", "-o", str(library), str(SOURCE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return library
