"""Network interfaces: traffic counters from /proc/net/dev, properties from /sys/class/net."""

from collections.abc import Iterable
from pathlib import Path

from collectors.host_reading import FamilyTable, Metric, list_names, read_attribute, read_number, read_text
from collectors.types import Family, MetricType

IFF_UP = 1
MEGABIT_BYTES = 1000 * 1000 // 8


def _counter(name: str) -> Metric:
    return Metric(f"node_network_{name}_total", "counter", f"Network device statistic {name}.", ("device",))


# The columns of /proc/net/dev. Its sums (drop holds missed packets, frame holds length, overrun and CRC
# errors, carrier holds aborted, window and heartbeat errors) are the ones that node_exporter forms.
COLUMNS = tuple(
    _counter(name)
    for name in (
        *(f"receive_{name}" for name in ("bytes", "packets", "errs", "drop")),
        *(f"receive_{name}" for name in ("fifo", "frame", "compressed", "multicast")),
        *(f"transmit_{name}" for name in ("bytes", "packets", "errs", "drop")),
        *(f"transmit_{name}" for name in ("fifo", "colls", "carrier", "compressed")),
    )
)
NOHANDLER = _counter("receive_nohandler")


def _property(name: str) -> Metric:
    kind: MetricType = "counter" if name.endswith("_total") else "gauge"
    return Metric(f"node_network_{name}", kind, f"Network device property: {name}", ("device",))


UP = Metric("node_network_up", "gauge", "Value is 1 if operstate is 'up', 0 otherwise.", ("device",))
INFO = Metric(
    "node_network_info",
    "gauge",
    "Non-numeric data from /sys/class/net/<iface>, value is always 1.",
    ("address", "adminstate", "broadcast", "device", "duplex", "ifalias", "operstate"),
)
SPEED = _property("speed_bytes")
PROPERTIES = {
    "addr_assign_type": _property("address_assign_type"),
    "carrier": _property("carrier"),
    "carrier_changes": _property("carrier_changes_total"),
    "carrier_up_count": _property("carrier_up_changes_total"),
    "carrier_down_count": _property("carrier_down_changes_total"),
    "dev_id": _property("device_id"),
    "dormant": _property("dormant"),
    "flags": _property("flags"),
    "ifindex": _property("iface_id"),
    "iflink": _property("iface_link"),
    "link_mode": _property("iface_link_mode"),
    "mtu": _property("mtu_bytes"),
    "name_assign_type": _property("name_assign_type"),
    "netdev_group": _property("net_dev_group"),
    "tx_queue_len": _property("transmit_queue_length"),
    "type": _property("protocol_type"),
}


class Netdev:
    name = "netdev"

    def __init__(self, proc: Path, sys: Path) -> None:
        self._path = f"{proc}/net/dev"
        self._class = f"{sys}/class/net"

    def families(self) -> Iterable[Family]:
        table = FamilyTable()
        for line in read_text(self._path).splitlines():
            device, separator, values = line.rpartition(":")  # an alias is named "eth0:1"
            if not separator:
                continue  # the two heading lines
            device = device.strip()
            for metric, value in zip(COLUMNS, values.split(), strict=True):
                table.add(metric, int(value), device)
            dropped = read_number(f"{self._class}/{device}/statistics/rx_nohandler")
            if dropped is not None:
                table.add(NOHANDLER, dropped, device)
        return table.families()


class Netclass:
    name = "netclass"

    def __init__(self, sys: Path) -> None:
        self._class = f"{sys}/class/net"

    def families(self) -> Iterable[Family]:
        table = FamilyTable()
        for device in list_names(self._class):
            folder = f"{self._class}/{device}"
            state = read_attribute(f"{folder}/operstate")
            if state is None:
                continue  # not an interface (bonding_masters), or one that has just gone
            table.add(UP, state == "up", device)
            self._add_info(table, device, folder, state)
            for attribute, metric in PROPERTIES.items():
                value = read_number(f"{folder}/{attribute}", _any_base)
                if value is not None:
                    table.add(metric, value, device)
            megabits = read_number(f"{folder}/speed")
            # -1 is the driver's "unknown"; node_exporter 2 leaves it out as well, 1 prints -125000.
            if megabits is not None and megabits >= 0:
                table.add(SPEED, megabits * MEGABIT_BYTES, device)
        return table.families()

    def _add_info(self, table: FamilyTable, device: str, folder: str, state: str) -> None:
        flags = read_number(f"{folder}/flags", _any_base)
        admin = "unknown" if flags is None else "up" if int(flags) & IFF_UP else "down"
        address, broadcast, duplex, alias = (
            read_attribute(f"{folder}/{name}") or "" for name in ("address", "broadcast", "duplex", "ifalias")
        )
        table.add(INFO, 1, address, admin, broadcast, device, duplex, alias, state)


def _any_base(text: str) -> int:
    return int(text, 0)
