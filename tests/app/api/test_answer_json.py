import json
import math

import numpy as np

from app.api.answer_json import encode
from db.promql.answer import Answer
from db.promql.table import SeriesTable

HOSTILE = 'a"b\\c\nd\x1b\u2028<é>'


def answer(kind, series, timestamps, values, there=None, text=""):
    shape = (len(series), len(timestamps)) if kind in ("vector", "matrix") else (1, 1)
    return Answer(
        kind,
        SeriesTable.of([tuple(sorted(labels.items())) for labels in series]),
        np.array(timestamps, dtype=np.int64),
        np.array(values, dtype=np.float64).reshape(shape),
        None if there is None else np.array(there),
        text,
    )


def written(*arguments, **options):
    return b"".join(encode(answer(*arguments, **options))).decode()


def test_a_vector():
    series = [{"__name__": "up", "job": HOSTILE}, {}, {"job": "b"}]
    text = written("vector", series, [1_700_000_000_500], [1, math.nan, -math.inf])
    assert json.loads(text) == {
        "resultType": "vector",
        "result": [
            {"metric": {"__name__": "up", "job": HOSTILE}, "value": [1700000000.5, "1"]},
            {"metric": {}, "value": [1700000000.5, "NaN"]},
            {"metric": {"job": "b"}, "value": [1700000000.5, "-Inf"]},
        ],
    }
    assert '"value":[1700000000.500,"1"]' in text


def test_labels_are_written_in_the_order_of_their_names():
    assert '{"A":"1","__name__":"x","b":"2"}' in written(
        "vector", [{"b": "2", "__name__": "x", "A": "1"}], [0], [1]
    )


def test_a_matrix_has_the_samples_that_are_there():
    series = [{"a": "1"}, {"a": "2"}, {"a": "3"}]
    there = [[True, True, True], [False, True, False], [True, False, True]]
    values = [[1, 2, 3], [9, 5e-6, 9], [1e21, 9, 0.5]]
    assert json.loads(written("matrix", series, [0, 1500, 3000], values, there)) == {
        "resultType": "matrix",
        "result": [
            {"metric": {"a": "1"}, "values": [[0, "1"], [1.5, "2"], [3, "3"]]},
            {"metric": {"a": "2"}, "values": [[1.5, "0.000005"]]},
            {"metric": {"a": "3"}, "values": [[0, "1e+21"], [3, "0.5"]]},
        ],
    }


def test_scalar_and_string():
    assert written("scalar", [], [2500], [3]) == '{"resultType":"scalar","result":[2.500,"3"]}'
    text = written("string", [], [0], [0], text=HOSTILE)
    assert json.loads(text) == {"resultType": "string", "result": [0, HOSTILE]}


def test_nothing():
    assert written("vector", [], [0], []) == '{"resultType":"vector","result":[]}'
    assert written("matrix", [], [], []) == '{"resultType":"matrix","result":[]}'
