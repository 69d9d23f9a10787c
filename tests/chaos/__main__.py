"""`make chaos`: what takes too long for every run of the tests.

Kills the processes of a store 200 times, and tries long random sequences against the model.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.chaos.rounds import kill_again_and_again

KILLS = 200
EXAMPLES = 1_000


def main() -> int:
    seed = int(os.environ.get("STRATA_CHAOS_SEED", time.time()))
    sys.stdout.write(f"seed {seed} (STRATA_CHAOS_SEED repeats it as far as processes do)\n")
    with tempfile.TemporaryDirectory(prefix="strata-chaos") as folder:
        kill_again_and_again(Path(folder), int(os.environ.get("STRATA_CHAOS_KILLS", KILLS)), seed)
    examples = os.environ.get("STRATA_MODEL_EXAMPLES", str(EXAMPLES))
    command = [sys.executable, "-m", "pytest", "-q", "tests/db/test_store_model.py"]
    return subprocess.run(command, env={**os.environ, "STRATA_MODEL_EXAMPLES": examples}).returncode


if __name__ == "__main__":
    sys.exit(main())
