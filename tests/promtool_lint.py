"""What `promtool check metrics` finds in a page, for comparing our pages with a genuine exporter's.

Our names are another exporter's names, faults included: a lint is only ours when the genuine page does
not have it too.
"""

import subprocess

from tests.needs import require_program

OK = 0
LINTS_FOUND = 3  # promtool's own exit status for "it parses, and here is what I do not like"

Lint = tuple[str, str]


def lints(page: str) -> frozenset[Lint]:
    """(metric, text) of every lint; fails the test when promtool cannot parse the page."""
    program = require_program("promtool")
    run = subprocess.run(
        [program, "check", "metrics"], input=page, capture_output=True, text=True, check=False, timeout=60
    )
    assert run.returncode in (OK, LINTS_FOUND), f"promtool: {run.stderr.strip()}"
    found = frozenset(_split(line) for line in run.stderr.splitlines() if line)
    assert bool(found) == (run.returncode == LINTS_FOUND), run.stderr
    return found


def own_lints(ours: str, *genuine: str) -> frozenset[Lint]:
    """The lints of our page that no genuine page has."""
    return lints(ours).difference(*map(lints, genuine))


def _split(line: str) -> Lint:
    metric, _, text = line.partition(" ")
    return metric, text
