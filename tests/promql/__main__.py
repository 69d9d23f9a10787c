"""`python -m tests.promql FILE...`: run Prometheus's test scripts against our evaluator."""

import sys
from collections import Counter
from collections.abc import Sequence
from io import TextIOWrapper
from pathlib import Path

from tests.promql.runner import run_file

USAGE = "usage: python -m tests.promql FILE..."


def main(arguments: Sequence[str]) -> int:
    """Prints failing and skipped cases and the sums; 1 if any failed, 2 if a file cannot be read."""
    if not arguments or any(argument.startswith("-") for argument in arguments):
        print(USAGE, file=sys.stderr)
        return 2
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # the scripts hold label names that are not UTF-8
    counts: Counter[str] = Counter()
    for argument in arguments:
        try:
            for outcome in run_file(Path(argument)):
                counts[outcome.status] += 1
                if outcome.status != "passed":
                    print(outcome, flush=True)
        except OSError as error:
            print(f"{argument}: {error.strerror}; name a test script", file=sys.stderr)
            return 2
    print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
