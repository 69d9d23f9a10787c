"""Every process's log: one line a record on stderr, logfmt or JSON, naming the process that wrote it.

The three processes share a terminal (or a journal), so a line has to say whose it is. Values come from
scraped pages and configuration: control characters are escaped, so that nobody can forge a line.
"""

import json
import logging
import re
import sys
import threading
import traceback
from datetime import UTC, datetime
from typing import Any, Literal, TextIO

LogFormat = Literal["logfmt", "json"]

_STANDARD = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}
_LEVELS = {"WARNING": "warn", "CRITICAL": "fatal"}  # logfmt's usual short names; the others are lower-cased
_BARE = re.compile(r"[\w./:+@%*,?&~()\[\]-]+", re.ASCII)
_QUIET = ("alembic",)  # tells every step it takes; its warnings are still shown
# What json.dumps leaves alone with ensure_ascii off, and a terminal or a log reader acts on: DEL, C1
# controls, line separators, bidirectional overrides.
_UNSAFE = re.compile(r"[\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


class _Formatter(logging.Formatter):
    """What both formats share: which fields a record has, in which order."""

    def __init__(self, process: str) -> None:
        super().__init__()
        self._process = process

    def fields(self, record: logging.LogRecord) -> dict[str, Any]:
        """ts, level, proc, logger, msg, then the record's `extra` fields, then error and trace."""
        level = _LEVELS.get(record.levelname, record.levelname.lower())
        moment = datetime.fromtimestamp(record.created, UTC)
        fields: dict[str, Any] = {
            "ts": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": level,
            "proc": self._process,
            "logger": record.name,
            "msg": record.getMessage(),
        }
        for name, value in record.__dict__.items():
            if name not in _STANDARD:
                fields[name] = value
        if record.exc_info is not None and record.exc_info[1] is not None:
            error = record.exc_info[1]
            fields["error"] = f"{type(error).__name__}: {error}"
            fields["trace"] = "".join(traceback.format_exception(error)).rstrip()
        return fields


class LogfmtFormatter(_Formatter):
    """`ts=... level=info proc=collect logger=collectors.scrape msg="..." target=gpu1:9400`."""

    def format(self, record: logging.LogRecord) -> str:
        return " ".join(f"{name}={_logfmt_value(value)}" for name, value in self.fields(record).items())


class JsonFormatter(_Formatter):
    """The same fields as one JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        return json.dumps(self.fields(record), default=str)


def configure(
    process: str, log_format: LogFormat = "logfmt", level: str = "info", stream: TextIO | None = None
) -> None:
    """Send every logger of this process to `stream` (stderr); replaces what was configured before.

    process: the name in `proc=`, e.g. "collect". level: debug, info, warning or error.
    Python warnings and exceptions that end a thread are logged too, instead of being printed between the
    lines.
    """
    formatter = JsonFormatter(process) if log_format == "json" else LogfmtFormatter(process)
    handler = logging.StreamHandler(sys.stderr if stream is None else stream)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    for former in root.handlers[:]:
        root.removeHandler(former)
    root.addHandler(handler)
    root.setLevel(level.upper())
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.captureWarnings(True)
    threading.excepthook = _log_thread_exception


def printable(text: str) -> str:
    """The text on one line, with control characters as escapes: for messages that quote foreign input."""
    quoted = json.dumps(text, ensure_ascii=False)[1:-1].replace('\\"', '"').replace("\\\\", "\\")
    return _UNSAFE.sub(_escape, quoted)


def _logfmt_value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.6g}"
    text = str(value)
    if _BARE.fullmatch(text):
        return text
    return _UNSAFE.sub(_escape, json.dumps(text, ensure_ascii=False))


def _escape(match: re.Match[str]) -> str:
    return f"\\u{ord(match.group()):04x}"


def _log_thread_exception(arguments: threading.ExceptHookArgs) -> None:
    if arguments.exc_value is None or arguments.exc_type is SystemExit:
        return
    name = arguments.thread.name if arguments.thread is not None else "unknown"
    exc_info = (arguments.exc_type, arguments.exc_value, arguments.exc_traceback)
    logging.getLogger("threads").error(
        "a thread ended by an error", exc_info=exc_info, extra={"in_thread": name}
    )
