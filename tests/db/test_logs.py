"""One line a record, whatever is in it."""

import io
import json
import logging
import threading
import warnings

import pytest

from db.logs import configure, printable


@pytest.fixture
def log():
    """A stream and the restored root logger."""
    root = logging.getLogger()
    handlers, level, hook = root.handlers[:], root.level, threading.excepthook
    stream = io.StringIO()
    yield stream
    root.handlers[:], threading.excepthook = handlers, hook
    root.setLevel(level)
    logging.captureWarnings(False)


def test_a_line_says_who_wrote_it_and_what(log):
    configure("collect", stream=log)
    logging.getLogger("scrape").warning("took too long", extra={"target": "gpu1:9400", "seconds": 10.25})
    line = log.getvalue()
    assert line.startswith("ts=20")
    assert line.endswith(
        ' level=warn proc=collect logger=scrape msg="took too long" target=gpu1:9400 seconds=10.25\n'
    )


def test_json_has_the_same_fields(log):
    configure("web", "json", stream=log)
    logging.getLogger("app").info("listening", extra={"port": 8501})
    record = json.loads(log.getvalue())
    assert {**record, "ts": ""} == {
        "ts": "",
        "level": "info",
        "proc": "web",
        "logger": "app",
        "msg": "listening",
        "port": 8501,
    }
    assert record["ts"].endswith("Z")


@pytest.mark.parametrize("log_format", ["logfmt", "json"])
def test_foreign_text_cannot_forge_a_line(log, log_format):
    configure("collect", log_format, stream=log)
    hostile = 'x"\nts=0 level=info msg=forged\r\x1b[2J\u2028\x85\u202e'
    logging.getLogger("a").info("got %s", hostile, extra={"label": hostile})
    text = log.getvalue()
    assert len(text.splitlines()) == 1
    assert "\x1b" not in text


def test_an_error_keeps_its_traceback_on_the_line(log):
    configure("alert", stream=log)
    try:
        raise ValueError("no such thing")
    except ValueError:
        logging.getLogger("a").exception("failed")
    line = log.getvalue()
    assert 'error="ValueError: no such thing"' in line
    assert "test_logs.py" in line
    assert len(line.splitlines()) == 1


def test_what_ends_a_thread_is_logged_not_printed(log, capsys):
    configure("collect", stream=log)
    thread = threading.Thread(target=lambda: 1 / 0, name="nvml")
    thread.start()
    thread.join()
    assert 'error="ZeroDivisionError: division by zero"' in log.getvalue()
    assert "in_thread=nvml" in log.getvalue()
    assert capsys.readouterr().err == ""


def test_python_warnings_are_log_lines(log):
    configure("web", stream=log)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(False)
        logging.captureWarnings(True)  # catch_warnings put the original back
        warnings.warn("old name", DeprecationWarning, stacklevel=1)
    assert "logger=py.warnings" in log.getvalue()


def test_configuring_again_replaces(log):
    configure("up", stream=log)
    configure("web", stream=log)
    logging.getLogger("a").info("once")
    assert log.getvalue().count("once") == 1


def test_printable_keeps_what_people_write_and_escapes_the_rest():
    assert printable('naïve "C:\\x" 50 % 漢') == 'naïve "C:\\x" 50 % 漢'
    assert printable("a\nb\x1b[1m") == "a\\nb\\u001b[1m"
