"""`strata query`: PromQL over the stored samples; a table for people, Prometheus's JSON for programs."""

from contextlib import ExitStack, closing
from typing import Annotated

import typer

from app.commands.failure import BAD_INPUT, FAILED, CommandError
from app.commands.options import ConfigFile, DataFolder, Json, Prometheus, engine_settings, settings_from

_WHEN = "Unix seconds, RFC 3339, now, or before now as -1h30m"
# A range without a step has about as many columns as a chart has room for.
_USUAL_STEPS = 250


def query(
    expression: Annotated[str, typer.Argument(metavar="EXPR", help="What to ask, in PromQL.")],
    config: ConfigFile = None,
    data: DataFolder = None,
    at: Annotated[
        str | None, typer.Option("--time", metavar="T", help=f"At one moment (default now): {_WHEN}.")
    ] = None,
    start: Annotated[
        str | None,
        typer.Option("--start", metavar="S", help="Over a range: its first moment, written alike."),
    ] = None,
    end: Annotated[
        str | None, typer.Option("--end", metavar="E", help="Its last moment (default now).")
    ] = None,
    step: Annotated[
        str | None, typer.Option("--step", metavar="D", help="Its resolution: seconds, or as 1m30s.")
    ] = None,
    prometheus: Prometheus = None,
    as_json: Json = False,
) -> int:
    """Ask the stored samples in PromQL: at one moment, or over a range with --start."""
    import sys
    import time
    from pathlib import Path
    from tempfile import TemporaryDirectory

    from app.api.answer_json import encode
    from app.commands.answer_table import lines
    from db.logs import printable
    from db.promql.engine import instant, ranged
    from db.promql.errors import QueryError
    from db.samples_source import source_of

    settings = settings_from(config, data, **engine_settings(prometheus))
    now_ms = time.time_ns() // 1_000_000
    if start is None and (end is not None or step is not None):
        raise CommandError("--end and --step are of a range; give --start as well, or --time", BAD_INPUT)
    if start is not None and at is not None:
        raise CommandError("--time and --start exclude each other; give one of them", BAD_INPUT)
    if start is None:
        at_ms = moment("--time", at or "now", now_ms)
    else:
        start_ms, end_ms = moment("--start", start, now_ms), moment("--end", end or "now", now_ms)
        step_ms = _step_ms(step, start_ms, end_ms)
    missing = not settings.samples_path.exists()
    if missing and settings.store.prometheus is None:
        raise CommandError(f"{settings.samples_path} does not exist; is --data the right folder?", FAILED)
    try:
        with ExitStack() as stack:
            if missing:  # an engine answers without it, and opening would create it
                scratch = stack.enter_context(TemporaryDirectory(prefix="strata-query-"))
                settings = settings.model_copy(update={"data": Path(scratch)})
            samples = stack.enter_context(closing(source_of(settings)()))
            if start is None:
                answer = instant(samples, expression, at_ms)
            else:
                answer = ranged(samples, expression, start_ms, end_ms, step_ms)
    except QueryError as error:
        status = BAD_INPUT if error.kind == "bad_data" else FAILED
        raise CommandError(str(error), status) from error
    for note in (*answer.warnings, *answer.infos):
        print(f"strata: {printable(note)}", file=sys.stderr)
    if as_json:
        for piece in encode(answer):
            sys.stdout.buffer.write(piece)  # JSON is UTF-8, whatever the terminal is
        sys.stdout.buffer.write(b"\n")
        sys.stdout.flush()
    else:
        for line in lines(answer, settings.zone):
            print(line)
    return 0


def moment(option: str, text: str, now_ms: int) -> int:
    """Milliseconds UTC of a time on the command line. Raises CommandError."""
    from app.api.times import parse_seconds, parse_time

    word = text.strip()
    if word == "now":
        return now_ms
    try:
        if word.startswith("-") and word[-1:].isalpha():  # -1h; without a unit it is a time before 1970
            return now_ms - round(parse_seconds(word[1:]) * 1000)
        return parse_time(word)
    except ValueError as error:
        raise CommandError(f"{option}: {text!r} is no time; write {_WHEN}", BAD_INPUT) from error


def _step_ms(text: str | None, start_ms: int, end_ms: int) -> int:
    from app.api.times import parse_milliseconds

    if end_ms < start_ms:
        raise CommandError("--end is before --start; exchange them", BAD_INPUT)
    if text is None:
        return max(1, (end_ms - start_ms) // _USUAL_STEPS // 1000) * 1000
    try:
        step_ms = parse_milliseconds(text)
    except ValueError as error:
        raise CommandError(
            f"--step: {text!r} is no duration; write seconds, or as 1m30s", BAD_INPUT
        ) from error
    if step_ms <= 0:
        raise CommandError("--step has to be at least 1ms; give a longer one", BAD_INPUT)
    return step_ms
