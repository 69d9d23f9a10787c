from app.widgets.status import FRESHNESS_SIGNS, PAUSED, SOURCE_SIGNS, process_sign, short
from db.processes import Process


def process(**changes):
    fields = {
        "name": "collect",
        "state": "running",
        "pid": 1,
        "started_ms": 0,
        "beat_ms": 100_000,
        "restarts": 0,
        "detail": "",
    }
    return Process(**{**fields, **changes})


def test_every_state_differs_in_shape_and_word():
    signs = [*SOURCE_SIGNS.values(), PAUSED]
    assert len({sign.shape for sign in signs}) == len(signs)
    assert len({sign.word for sign in signs}) == len(signs)
    assert len({sign.shape for sign in FRESHNESS_SIGNS.values()}) == len(FRESHNESS_SIGNS)


def test_a_process_that_is_said_to_run_but_is_silent_is_not_running():
    assert process_sign(process(), 101_000).word == "Running"
    assert process_sign(process(), 121_000).word == "Not answering"
    assert process_sign(process(state="restarting"), 101_000).word == "Restarting"
    assert process_sign(process(state="stopped"), 101_000).word == "Stopped"


def test_short_is_one_printable_line():
    assert short("a\nb\tc\x1b[31m\u202e") == "a b c [31m"
    assert len(short("x" * 1_000_000)) == 200
