"""The remote engine as others see it: exact requests, whole answers, and one sentence for every failure."""

import ssl
import subprocess

import numpy as np
import pytest

from db.http_settings import TlsConfig
from db.nan import ABSENT, NORMAL, has_bits, is_absent
from db.promql.errors import (
    BadQuery,
    ExecutionError,
    QueryError,
    QueryTimeout,
    SourceUnavailable,
)
from db.records import Matcher, named
from db.remote import RemoteEngine
from db.remote_settings import PrometheusSettings, RemoteAuth
from tests.free_port import free_port
from tests.needs import require_program
from tests.remote_engines import failure, scripted_engine, success

AT_MS = 1_700_000_000_123


def vector(*series):
    result = [{"metric": labels, "value": [AT_MS / 1000, value]} for labels, value in series]
    return {"resultType": "vector", "result": result}


def matrix(*series):
    return {
        "resultType": "matrix",
        "result": [{"metric": labels, "values": values} for labels, values in series],
    }


@pytest.fixture
def engine():
    """What the test says is answered; `ask(answer)` gives the server and the client."""
    open_now = []

    def ask(answer, **settings):
        manager = scripted_engine(answer)
        server = manager.__enter__()
        client = RemoteEngine(PrometheusSettings(query_url=server.url, **settings))
        open_now.append((manager, client))
        return server, client

    yield ask
    for manager, client in open_now:
        client.close()
        manager.__exit__(None, None, None)


def test_a_query_is_a_form_with_exact_milliseconds_and_the_tenant(engine) -> None:
    server, client = engine(lambda _: success(vector()), headers={"X-Scope-OrgID": "gpu"}, timeout=7)
    client.instant('up{a="b&c"}', AT_MS)
    (asked,) = server.asked
    assert (asked.method, asked.path) == ("POST", "/api/v1/query")
    assert asked.fields["query"] == ['up{a="b&c"}']
    assert asked.fields["time"] == ["1700000000.123"]
    assert asked.fields["timeout"] == ["7s"]
    assert "lookback_delta" not in asked.fields
    assert asked.headers["X-Scope-OrgID"] == "gpu"
    assert asked.headers["Accept-Encoding"] == "gzip"
    assert "Authorization" not in asked.headers


def test_a_lookback_of_its_own_is_told(engine) -> None:
    server, client = engine(lambda _: success(vector()))
    client.instant("up", AT_MS, 60_500)
    assert server.asked[0].fields["lookback_delta"] == ["60.500"]


def test_secrets_are_read_at_every_request(engine, tmp_path) -> None:
    file = tmp_path / "secret"
    file.write_text("one\n")
    server, client = engine(lambda _: success(vector()), auth=RemoteAuth(bearer_token_file=str(file)))
    client.check()
    file.write_text("two")
    client.check()
    assert [asked.headers["Authorization"] for asked in server.asked] == ["Bearer one", "Bearer two"]
    file.unlink()
    with pytest.raises(SourceUnavailable, match=r"secret file .*secret cannot be read"):
        client.check()


def test_basic_auth(engine, tmp_path) -> None:
    (tmp_path / "secret").write_text("p:w\n")
    auth = RemoteAuth(username="ada", password_file=str(tmp_path / "secret"))
    server, client = engine(lambda _: success(vector()), auth=auth)
    client.check()
    assert server.asked[0].headers["Authorization"] == "Basic YWRhOnA6dw=="


def test_the_whole_answer_arrives(engine) -> None:
    data = vector(({"__name__": "b", "x": ""}, "NaN"), ({"__name__": "a"}, "-Inf"))
    _, client = engine(lambda _: success(data, warnings=["partial"], infos=["counter?"]))
    answer = client.instant("x", AT_MS)
    assert answer.kind == "vector"
    assert list(answer.table.rows()) == [
        (("__name__", "b"),),
        (("__name__", "a"),),
    ]  # its order is the answer's
    assert has_bits(answer.values[0], int(np.array([NORMAL]).view(np.uint64)[0])).all()
    assert answer.values[1, 0] == -np.inf
    assert (tuple(answer.warnings), tuple(answer.infos)) == (("partial",), ("counter?",))
    assert answer.timestamps.tolist() == [AT_MS]


def test_a_matrix_is_laid_onto_its_grid_ordered_by_labels(engine) -> None:
    data = matrix(({"n": "b"}, [[10, "1"], [12, "3"]]), ({"n": "a"}, [[11, "2"]]))
    server, client = engine(lambda _: success(data))
    answer = client.ranged("x", 10_000, 12_000, 1_000)
    assert [labels[0][1] for labels in answer.table.rows()] == ["a", "b"]
    assert answer.there is not None
    assert answer.there.tolist() == [[False, True, False], [True, False, True]]
    assert answer.values[answer.there].tolist() == [2, 1, 3]
    assert server.asked[0].fields["nocache"] == ["1"]


def test_a_range_of_any_length_is_asked_in_parts_that_an_engine_takes(engine) -> None:
    def answered(asked):
        start, end, step = (float(asked.fields[name][0]) for name in ("start", "end", "step"))
        steps = round((end - start) / step) + 1
        assert steps <= 11_000
        values = [[start + number * step, str(start + number * step)] for number in range(steps)]
        return success(matrix(({"n": "a"}, values)))

    server, client = engine(answered)
    found = client.at_steps([named("x")], 0, 25_000_000, 1_000, 300_000)
    assert len(server.asked) == 3
    assert not is_absent(found.values).any()
    assert (found.values[0] * 1000 == found.timestamps).all()


def test_native_histograms_are_left_out_and_said(engine) -> None:
    data = {"resultType": "vector", "result": [{"metric": {"n": "a"}, "histogram": [1, {}]}]}
    _, client = engine(lambda _: success(data))
    answer = client.instant("x", AT_MS)
    assert len(answer.table) == 0
    assert "native histograms are not supported" in answer.warnings[0]


def test_scalars_and_strings(engine) -> None:
    _, client = engine(lambda _: success({"resultType": "scalar", "result": [1.5, "2"]}))
    assert client.instant("2", 1_500).values.tolist() == [[2.0]]
    _, client = engine(lambda _: success({"resultType": "string", "result": [1.5, "hi"]}))
    assert client.instant('"hi"', 1_500).text == "hi"


def test_raw_samples_come_in_parts_without_overlap(engine) -> None:
    """A server of version 2 gives the sample at the window's beginning, too."""

    def answered(asked):
        selector, _, window = asked.fields["query"][0].rpartition("[")
        assert selector == '{__name__="x",a="q\\"\\n"}'
        hours = {"1h": 3_600_000, "8h": 28_800_000}
        end = round(float(asked.fields["time"][0]) * 1000)
        span = hours.get(window[:-1], 0) or 10_800_001
        times = range(max(0, end - span), end + 1, 60_000)
        times = [time for time in times if time % 60_000 == 0] or []
        return success(matrix(({"n": "a"}, [[time / 1000, str(time)] for time in times])))

    server, client = engine(answered)
    matchers = [named("x"), Matcher("a", "=", 'q"\n')]
    series, (rectangle,) = client.rectangles(matchers, 0, 14_400_000)
    assert len(server.asked) > 1
    assert rectangle.timestamps.tolist() == sorted(set(rectangle.timestamps.tolist()))
    assert (rectangle.values[0] == rectangle.timestamps).all()
    assert rectangle.timestamps[-1] == 14_400_000
    assert list(series) == [(("n", "a"),)]


def test_a_part_that_is_too_much_for_the_engine_is_asked_in_smaller_ones(engine) -> None:
    def answered(asked):
        if "[1h]" in asked.fields["query"][0]:
            return failure(422, "execution", "too many samples")
        return success(matrix(({"n": "a"}, [[float(asked.fields["time"][0]), "1"]])))

    server, client = engine(answered)
    client.rectangles([named("x")], 0, 3_599_999)
    assert "[1h]" in server.asked[0].fields["query"][0]
    assert len(server.asked) > 2


def test_series_with_the_same_times_share_a_rectangle_and_their_set_stays_the_same(engine) -> None:
    data = matrix(
        ({"n": "a"}, [[1, "1"], [2, "2"]]), ({"n": "b"}, [[1, "3"]]), ({"n": "c"}, [[1, "4"], [2, "5"]])
    )
    _, client = engine(lambda _: success(data))
    series, rectangles = client.rectangles([named("x")], 0, 2_000)
    assert sorted(item.rows.tolist() for item in rectangles) == [[0, 2], [1]]
    assert client.rectangles([named("x")], 0, 2_000)[0] is series


def test_latest_samples_have_their_own_times(engine) -> None:
    data = vector(
        ({"__name__": "x", "i": "1"}, "7"), ({"i": "1", "strata_time": "1"}, str((AT_MS - 4_000) / 1000))
    )
    _, client = engine(lambda _: success(data))
    latest = client.latest_columns([named("x")], AT_MS, 300_000)
    assert list(latest.series) == [(("__name__", "x"), ("i", "1"))]
    assert (latest.values.tolist(), latest.timestamps.tolist()) == ([7], [AT_MS - 4_000])


def test_latest_of_names_that_alone_tell_series_apart(engine) -> None:
    def answered(asked):
        if "timestamp(" in asked.fields["query"][0]:
            return failure(422, "execution", "vector cannot contain metrics with the same labelset")
        return success(vector(({"__name__": "x"}, "1"), ({"__name__": "y"}, "2")))

    _, client = engine(answered)
    latest = client.latest_columns([Matcher("__name__", "=~", "x|y")], AT_MS, 300_000)
    assert latest.values.tolist() == [1, 2]


def test_a_proxy_that_refuses_post_is_asked_by_get(engine) -> None:
    refusal = (405, {"Content-Type": "text/html"}, b"<html>")
    server, client = engine(lambda asked: refusal if asked.method == "POST" else success(vector()))
    client.check()
    client.check()
    assert [asked.method for asked in server.asked] == ["POST", "GET", "GET"]


SIGN_IN = (200, {"Content-Type": "text/html"}, b"<html>Sign in</html>")


@pytest.mark.parametrize(
    ("answer", "error", "words"),
    [
        (failure(400, "bad_data", "1:3: parse error"), BadQuery, "says: 1:3: parse error"),
        (failure(422, "execution", "many-to-many"), ExecutionError, "says: many-to-many"),
        (failure(422, "422", "victoria's way"), ExecutionError, "says: victoria's way"),
        (failure(503, "timeout", "query timed out"), QueryTimeout, "says: query timed out"),
        (failure(500, "internal", "oops\nline"), SourceUnavailable, "says: oops line"),
        (SIGN_IN, SourceUnavailable, "a web page .HTTP 200.*a proxy or a sign-in"),
        ((401, {}, b"<html>no"), SourceUnavailable, "refuses us .HTTP 401.; check store.prometheus.auth"),
        ((404, {}, b"404 page not found"), SourceUnavailable, "no query API .HTTP 404.; check query_url"),
        ((302, {"Location": "http://127.0.0.1:1/login"}, b""), SourceUnavailable, "redirects .HTTP 302."),
        ((502, {}, b"bad\x1b[31m gateway"), SourceUnavailable, r"answered HTTP 502: bad.*gateway"),
        ((200, {}, b'{"status":"succ'), SourceUnavailable, "gave no JSON of a Prometheus API"),
        ((200, {}, b"[]"), SourceUnavailable, "gave no JSON"),
        (
            success({"resultType": "tensor", "result": []}),
            SourceUnavailable,
            "cannot be read: its resultType",
        ),
        (success({"resultType": "vector", "result": [{"metric": 3}]}), SourceUnavailable, None),
        (
            success({"resultType": "vector", "result": [{"metric": 3, "value": [1]}]}),
            SourceUnavailable,
            "read",
        ),
        (success(None), SourceUnavailable, "cannot be read"),
    ],
)
def test_every_failure_is_one_sentence_that_names_the_engine(engine, answer, error, words) -> None:
    server, client = engine(lambda _: answer)
    if words is None:
        client.instant("x", AT_MS)  # a series without a value is a native histogram to us
        return
    with pytest.raises(QueryError, match=words) as raised:
        client.instant("x", AT_MS)
    assert type(raised.value) is error
    assert str(raised.value).startswith(server.url)
    assert "\n" not in str(raised.value)
    assert "\x1b" not in str(raised.value)


def test_a_slow_engine_costs_the_timeout_and_no_retry(engine) -> None:
    def slow(_):
        server.over.wait(20)
        return success(vector())

    server, client = engine(slow, timeout=0.2)
    with pytest.raises(QueryTimeout, match=r"did not answer within 0.2 s"):
        client.check()
    assert len(server.asked) == 1


@pytest.mark.parametrize(("closes", "asked"), [(1, 2), (9, 2)])
def test_a_kept_connection_that_was_closed_is_made_anew_once(engine, closes, asked) -> None:
    def answered(_):
        if len(server.asked) <= closes:
            raise ConnectionResetError
        return success(vector())

    server, client = engine(answered)
    if closes < asked:
        client.check()
    else:
        with pytest.raises(SourceUnavailable, match="cannot be reached"):
            client.check()
    assert len(server.asked) == asked


def test_an_engine_that_is_not_there() -> None:
    client = RemoteEngine(PrometheusSettings(query_url=f"http://127.0.0.1:{free_port()}"))
    with pytest.raises(SourceUnavailable, match="cannot be reached: connection refused"):
        client.check()


def test_too_large_an_answer_ends_before_it_fills_the_memory(engine, monkeypatch) -> None:
    monkeypatch.setattr("db.remote_http.ANSWER_BYTES", 1_000)
    _, client = engine(lambda _: (200, {}, b" " * 5_000))
    with pytest.raises(ExecutionError, match="answered with more than"):
        client.check()


def test_lookups(engine) -> None:
    def answered(asked):
        path = asked.path.partition("?")[0]
        return success(
            {
                "/api/v1/labels": ["b", "a"],
                "/api/v1/label/a%2Fb/values": ["2", "1"],
                "/api/v1/series": [{"__name__": "x", "a": "1"}],
                "/api/v1/metadata": {"x": [{"type": "gauge", "help": "h", "unit": ""}]},
                "/api/v1/targets": {"activeTargets": [{"scrapePool": "p"}], "droppedTargets": []},
            }[path]
        )

    server, client = engine(answered)
    window = {"start_ms": -(1 << 62), "end_ms": 1 << 62}  # the store's own bounds
    assert client.label_names(start_ms=0, end_ms=1) == ["a", "b"]
    assert client.label_values("a/b", [named("x")], **window) == ["1", "2"]
    assert server.asked[-1].fields["match[]"] == ['{__name__="x"}']
    assert client.series([named("x")], [named("y")], **window) == [(("__name__", "x"), ("a", "1"))]
    assert server.asked[-1].fields["match[]"] == ['{__name__="x"}', '{__name__="y"}']
    assert client.metadata("x")[0].type == "gauge"
    assert client.targets() == [{"scrapePool": "p"}]


@pytest.mark.parametrize("data", [{"a": 1}, [1], "text"])
def test_lookups_that_cannot_be_read(engine, data) -> None:
    _, client = engine(lambda _: success(data))
    with pytest.raises(SourceUnavailable, match="cannot be read"):
        client.label_names(start_ms=0, end_ms=1)


def test_an_empty_answer_is_no_error(engine) -> None:
    _, client = engine(lambda _: success(matrix()))
    assert client.ranged("x", 0, 1_000, 500).values.shape == (0, 3)
    assert client.rectangles([named("x")], 0, 1_000)[1] == []
    _, client = engine(lambda _: success(vector()))
    assert client.latest_columns([named("x")], 0, 1).values.shape == (0,)


def test_steps_that_a_series_lacks_are_absent(engine) -> None:
    _, client = engine(lambda _: success(matrix(({"n": "a"}, [[1, "1"]]))))
    found = client.steps_of("x", 0, 2_000, 1_000, 300_000)
    assert has_bits(found.values, int(np.array([ABSENT]).view(np.uint64)[0])).tolist() == [
        [True, False, True]
    ]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """Of an authority of its own, for the name `engine`."""
    folder = tmp_path_factory.mktemp("tls")
    pair = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")]
    name = ["-subj", "/CN=engine", "-addext", "subjectAltName=DNS:engine"]
    command = [require_program("openssl"), "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    subprocess.run([*command, *pair, *name], check=True, capture_output=True)
    return folder


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"ca_file": "cert.pem", "server_name": "engine"}, None),
        ({"insecure_skip_verify": True}, None),
        ({}, "cannot be trusted: .*check store.prometheus.tls_config"),
        ({"ca_file": "cert.pem"}, "cannot be trusted: .*check store.prometheus.tls_config"),
    ],
)
def test_tls(certificate, settings, words) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
    tls = TlsConfig(**settings).resolved(certificate)
    with scripted_engine(lambda _: success(vector()), context) as server:
        client = RemoteEngine(PrometheusSettings(query_url=server.url, tls_config=tls))
        if words is None:
            client.check()
        else:
            with pytest.raises(SourceUnavailable, match=words):
                client.check()
        client.close()


def test_a_tls_file_that_is_not_there(tmp_path) -> None:
    tls = TlsConfig(ca_file=str(tmp_path / "gone.pem"))
    with pytest.raises(SourceUnavailable, match=r"gone\.pem cannot be used"):
        RemoteEngine(PrometheusSettings(query_url="https://e", tls_config=tls))
