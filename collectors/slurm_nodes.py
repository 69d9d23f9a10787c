"""Nodes and their GPUs from `scontrol --details show node`, whose text every version prints alike.

Not sinfo: its JSON groups nodes instead of listing them since 23.02, and its text has no GPU counts of a node
without a fixed column width. Only operators can write free text here (Reason, Comment, Extra).
"""

import re
from collections import Counter
from dataclasses import replace
from typing import Final

from collectors.slurm_records import Node
from collectors.slurm_text import absent, gpus, label, records

ARGUMENTS: Final = ("--details", "show", "node")
MAX_REASON_LENGTH: Final = 128

_RECORD: Final = re.compile(r"^NodeName=(\S+)", re.MULTILINE)
# One value a word; Reason is the rest of its line, up to who set it and when.
_WORD: Final = re.compile(r"(?:^|\s)(Gres|GresUsed|NodeHostName|State|Partitions)=(\S*)")
_REASON: Final = re.compile(r"^\s+Reason=(.*?)(?:\s\[[^\[\]]*@[^\[\]]*\])?\s*$", re.MULTILINE)
_FREE_TEXT: Final = re.compile(r"^\s+(?:Reason|Comment|Extra|OS)=.*$", re.MULTILINE)


def nodes(output: bytes) -> list[Node]:
    """Every node that exists and that this user may see."""
    found = [_node(name, record) for name, record in records(output.decode(errors="replace"), _RECORD)]
    shared = Counter(node.hostname for node in found)
    # Several slurmd on one host (a test cluster): only Slurm's names tell them apart.
    return [
        node if shared[node.hostname] == 1 else replace(node, hostname=_short(node.name))
        for node in found
        if "future" not in node.state.split("+")
    ]


def _node(name: str, record: str) -> Node:
    reason = _REASON.search(record)
    values: dict[str, str] = {}
    for word in _WORD.finditer(_FREE_TEXT.sub("", record)):
        values.setdefault(word[1], word[2])
    partitions = [label(one) for one in absent(values.get("Partitions", "")).split(",")]
    return Node(
        name=label(name),
        hostname=_short(absent(values.get("NodeHostName", "")) or name),
        state=label(values.get("State", "")).lower(),
        reason=label(reason[1], MAX_REASON_LENGTH) if reason else "",
        partitions=tuple(one for one in partitions if one),
        gpus=sum(one.count for one in gpus(values.get("Gres", ""))),
        allocated=sum(one.count for one in gpus(values.get("GresUsed", ""))),
    )


def _short(name: str) -> str:
    return label(name.partition(".")[0])
