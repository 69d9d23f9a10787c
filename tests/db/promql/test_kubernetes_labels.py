"""Expressions over GPU metrics whose pod labels Kubernetes' scraping has moved."""

import pytest

from db.promql.kubernetes_labels import moved_labels, with_moved_labels
from db.promql.parse import parse

MOVED = {"pod": "exported_pod", "namespace": "exported_namespace"}


def replaced(text: str, *names: str) -> str:
    for name in names:
        text = f'label_replace({text}, "{name}", "$1", "exported_{name}", "(.*)")'
    return text


def test_which_labels_were_moved() -> None:
    assert moved_labels(["pod", "exported_pod", "gpu"]) == {"pod": "exported_pod"}
    assert moved_labels(["pod", "namespace", "exported_job"]) == {}


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        (
            'DCGM_UTIL{pod="a",gpu="0"}',
            replaced('DCGM_UTIL{exported_pod="a",gpu="0"}', "pod", "namespace"),
        ),
        ("sum by (pod) (DCGM_UTIL)", replaced("sum by (exported_pod) (DCGM_UTIL)", "pod")),
        ("sum by (gpu) (DCGM_UTIL)", "sum by (gpu) (DCGM_UTIL)"),
        (
            "avg without (pod) (DCGM_UTIL)",
            replaced("avg without (exported_pod) (DCGM_UTIL)", "pod", "namespace"),
        ),
        (
            'rate(DCGM_X{namespace="n"}[5m])',
            replaced('rate(DCGM_X{exported_namespace="n"}[5m])', "pod", "namespace"),
        ),
        (
            "sum by (pod) (DCGM_A) * on (pod) group_left (owner) kube_pod_owner",
            replaced("sum by (exported_pod) (DCGM_A)", "pod")
            + " * on (pod) group_left (owner) kube_pod_owner",
        ),
        (
            "DCGM_A / ignoring (pod) DCGM_B",
            replaced("(DCGM_A / ignoring (exported_pod) DCGM_B)", "pod", "namespace"),
        ),
        ('kube_pod_info{pod="a"}', 'kube_pod_info{pod="a"}'),
        ('{pod="a"}', '{pod="a"}'),
    ],
)
def test_asked_by_the_moved_names_and_given_by_the_plain_ones(text, asked) -> None:
    assert with_moved_labels(parse(text), MOVED) == parse(asked)


def test_nothing_changes_where_nothing_was_moved() -> None:
    expression = parse('sum by (pod) (DCGM_UTIL{pod="a"})')
    assert with_moved_labels(expression, {}) is expression
