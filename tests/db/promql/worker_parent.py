"""A program with workers, for a test that kills it: `python -m tests.db.promql.worker_parent STORE PIPE`."""

import signal
import sys
from functools import partial
from pathlib import Path

from db.promql.question import Question
from db.promql.workers import QueryWorkers
from tests.db.promql.worker_answers import obey, open_and_tell

if __name__ == "__main__":
    store, pipe = map(Path, sys.argv[1:])
    workers = QueryWorkers(partial(open_and_tell, store, pipe), count=1, spares=1, answer=obey)
    workers.submit(Question(f"sleep {pipe}", 0, 0))
    signal.pause()
