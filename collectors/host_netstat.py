"""Protocol counters (/proc/net/netstat, snmp, snmp6) and sockets in use (/proc/net/sockstat)."""

import re
from collections.abc import Iterable
from functools import cache
from os import sysconf
from pathlib import Path

from collectors.host_reading import FamilyTable, Metric, read_text
from collectors.types import Family, Unsupported

# node_exporter's default choice out of some 400 fields.
CHOSEN = re.compile(
    r".*_(InErrors|InErrs)|Ip_Forwarding|Ip(6|Ext)_(InOctets|OutOctets)|Icmp6?_(InMsgs|OutMsgs)"
    r"|TcpExt_(Listen.*|Syncookies.*|TCPSynRetrans|TCPTimeouts)"
    r"|Tcp_(ActiveOpens|InSegs|OutSegs|OutRsts|PassiveOpens|RetransSegs|CurrEstab)"
    r"|Udp6?_(InDatagrams|OutDatagrams|NoPorts|RcvbufErrors|SndbufErrors)"
)
# The fields of /proc/net/snmp6 name their protocol in front: Icmp6InMsgs is Icmp6, InMsgs.
SNMP6_FIELD = re.compile(r"(Ip6|Icmp6|Udp6|UdpLite6)(\w+)")


class Netstat:
    name = "netstat"

    def __init__(self, proc: Path) -> None:
        self._folder = f"{proc}/net"

    def families(self) -> Iterable[Family]:
        table = FamilyTable()
        for name in ("netstat", "snmp"):
            lines = read_text(f"{self._folder}/{name}").splitlines()
            for names, line in zip(lines[::2], lines[1::2], strict=True):
                values = line.split()
                for column, metric in _chosen_columns(names):
                    table.add(metric, int(values[column]))
        try:
            text = read_text(f"{self._folder}/snmp6")
        except FileNotFoundError:
            text = ""  # a kernel without IPv6
        for line in text.splitlines():
            field, value = line.split()
            chosen = _snmp6_metric(field)
            if chosen is not None:
                table.add(chosen, int(value))
        return table.families()


class Sockstat:
    """The *_mem fields count pages; they are reported in bytes as well."""

    name = "sockstat"

    def __init__(self, proc: Path) -> None:
        self._folder = f"{proc}/net"
        self._page_bytes = sysconf("SC_PAGE_SIZE")

    def families(self) -> Iterable[Family]:
        table = FamilyTable()
        for name in ("sockstat", "sockstat6"):
            try:
                text = read_text(f"{self._folder}/{name}")
            except FileNotFoundError:
                continue
            for line in text.splitlines():
                protocol, *words = line.split()
                protocol = protocol.removesuffix(":")
                for state, value in zip(words[::2], words[1::2], strict=True):
                    table.add(_socket_metric(protocol, state), int(value))
                    if state == "mem":
                        table.add(_socket_metric(protocol, "mem_bytes"), int(value) * self._page_bytes)
        families = table.families()
        if not families:
            raise Unsupported(f"this kernel has no {self._folder}/sockstat")
        return families


@cache
def _chosen_columns(names: str) -> list[tuple[int, Metric]]:
    """A line of names never changes while the kernel runs: the choice is made once."""
    protocol, *fields = names.split()
    metrics = ((column, _netstat_metric(protocol.removesuffix(":"), f)) for column, f in enumerate(fields, 1))
    return [(column, metric) for column, metric in metrics if metric is not None]


@cache
def _snmp6_metric(field: str) -> Metric | None:
    found = SNMP6_FIELD.fullmatch(field)
    return _netstat_metric(found[1], found[2]) if found else None


def _netstat_metric(protocol: str, field: str) -> Metric | None:
    key = f"{protocol}_{field}"
    if not CHOSEN.fullmatch(key):
        return None
    return Metric(f"node_netstat_{key}", "unknown", f"Statistic {protocol}{field}.")


@cache
def _socket_metric(protocol: str, state: str) -> Metric:
    if protocol == "sockets":
        return Metric("node_sockstat_sockets_used", "gauge", "Number of IPv4 sockets in use.")
    text = f"Number of {protocol} sockets in state {state}."
    return Metric(f"node_sockstat_{protocol}_{state}", "gauge", text)
