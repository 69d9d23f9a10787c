"""Names of the InfiniBand and RoCE port counters, file by file.

`counters` are those of the InfiniBand specification; `counters_ext` its 64-bit forms before Linux 4.5;
`hw_counters` are mlx5's own (NVIDIA, "Understanding mlx5 Linux counters and status parameters"): out of
buffer, retries, and the CNP and ECN counts that show RoCE congestion control at work.
"""

from collectors.host_reading import Metric
from collectors.types import MetricType

Counters = dict[str, Metric]


def _metric(name: str, text: str, kind: MetricType = "counter") -> Metric:
    return Metric(f"node_infiniband_{name}", kind, text, ("device", "port"))


COUNTERS: Counters = {
    "excessive_buffer_overrun_errors": _metric(
        "excessive_buffer_overrun_errors_total",
        "Times that the port's receive buffer overran for several flow control periods in a row.",
    ),
    "link_downed": _metric(
        "link_downed_total",
        "Number of times the link failed to recover from an error state and went down",
    ),
    "link_error_recovery": _metric(
        "link_error_recovery_total", "Number of times the link successfully recovered from an error state"
    ),
    "local_link_integrity_errors": _metric(
        "local_link_integrity_errors_total",
        "Times that local physical errors exceeded the threshold LocalPhyErrors.",
    ),
    "multicast_rcv_packets": _metric(
        "multicast_packets_received_total", "Number of multicast packets received (including errors)"
    ),
    "multicast_xmit_packets": _metric(
        "multicast_packets_transmitted_total", "Number of multicast packets transmitted (including errors)"
    ),
    "port_rcv_constraint_errors": _metric(
        "port_constraint_errors_received_total",
        "Number of packets received on the switch physical port that are discarded",
    ),
    "port_rcv_data": _metric("port_data_received_bytes_total", "Number of data octets received on all links"),
    "port_rcv_discards": _metric(
        "port_discards_received_total",
        "Number of inbound packets discarded by the port because the port is down or congested",
    ),
    "port_rcv_errors": _metric(
        "port_errors_received_total",
        "Number of packets containing an error that were received on this port",
    ),
    "port_rcv_packets": _metric(
        "port_packets_received_total",
        "Number of packets received on all VLs by this port (including errors)",
    ),
    "port_rcv_remote_physical_errors": _metric(
        "port_receive_remote_physical_errors_total",
        "Packets received with the end-of-bad-packet mark: a port further away saw the error.",
    ),
    "port_rcv_switch_relay_errors": _metric(
        "port_receive_switch_relay_errors_total",
        "Packets that the switch could not forward.",
    ),
    "port_xmit_constraint_errors": _metric(
        "port_constraint_errors_transmitted_total",
        "Number of packets not transmitted from the switch physical port",
    ),
    "port_xmit_data": _metric(
        "port_data_transmitted_bytes_total", "Number of data octets transmitted on all links"
    ),
    "port_xmit_discards": _metric(
        "port_discards_transmitted_total",
        "Number of outbound packets discarded by the port because the port is down or congested",
    ),
    "port_xmit_packets": _metric(
        "port_packets_transmitted_total",
        "Number of packets transmitted on all VLs from this port (including errors)",
    ),
    "port_xmit_wait": _metric(
        "port_transmit_wait_total",
        "Number of ticks during which the port had data to transmit but no data was sent during the entire"
        " tick",
    ),
    "symbol_error": _metric("symbol_error_total", "Minor link errors on one or more lanes."),
    "unicast_rcv_packets": _metric(
        "unicast_packets_received_total", "Number of unicast packets received (including errors)"
    ),
    "unicast_xmit_packets": _metric(
        "unicast_packets_transmitted_total", "Number of unicast packets transmitted (including errors)"
    ),
    "VL15_dropped": _metric("vl15_dropped_total", "Management packets (VL15) dropped for lack of resources."),
}

COUNTERS_EXT: Counters = {
    "port_multicast_rcv_packets": _metric(
        "legacy_multicast_packets_received_total", "Number of multicast packets received"
    ),
    "port_multicast_xmit_packets": _metric(
        "legacy_multicast_packets_transmitted_total", "Number of multicast packets transmitted"
    ),
    "port_rcv_data_64": _metric(
        "legacy_data_received_bytes_total", "Number of data octets received on all links"
    ),
    "port_rcv_packets_64": _metric(
        "legacy_packets_received_total", "Number of data packets received on all links"
    ),
    "port_unicast_rcv_packets": _metric(
        "legacy_unicast_packets_received_total", "Number of unicast packets received"
    ),
    "port_unicast_xmit_packets": _metric(
        "legacy_unicast_packets_transmitted_total", "Number of unicast packets transmitted"
    ),
    "port_xmit_data_64": _metric(
        "legacy_data_transmitted_bytes_total", "Number of data octets transmitted on all links"
    ),
    "port_xmit_packets_64": _metric(
        # "received" is node_exporter's own slip; a HELP text must be the same on every target.
        "legacy_packets_transmitted_total",
        "Number of data packets received on all links",
    ),
}

HW_COUNTERS: Counters = {
    "duplicate_request": _metric(
        "duplicate_requests_packets_total", "Requests received that had been executed before."
    ),
    "implied_nak_seq_err": _metric(
        "implied_nak_seq_errors_total", "ACKs with a sequence number beyond the expected read or response."
    ),
    "local_ack_timeout_err": _metric(
        "local_ack_timeout_errors_total", "Acknowledge timers that expired at the sender and were retried."
    ),
    "np_cnp_sent": _metric(
        "np_cnp_packets_sent_total", "Congestion notifications sent for packets that a switch had marked."
    ),
    "np_ecn_marked_roce_packets": _metric(
        "np_ecn_marked_roce_packets_received_total", "RoCEv2 packets received with a congestion mark (ECN)."
    ),
    "out_of_buffer": _metric(
        "out_of_buffer_drops_total", "Packets dropped because the receiver had posted no work request."
    ),
    "out_of_sequence": _metric("out_of_sequence_packets_received_total", "Packets received out of sequence."),
    "packet_seq_err": _metric(
        "packet_sequence_errors_total", "Negative acknowledgements for a sequence error that were retried."
    ),
    "req_cqe_error": _metric("req_cqes_errors_total", "Requests that completed with an error."),
    "req_cqe_flush_error": _metric(
        "req_cqes_flush_errors_total", "Requests that completed with a flushed error."
    ),
    "req_remote_access_errors": _metric(
        "req_remote_access_errors_total", "Remote access errors that the requester saw."
    ),
    "req_remote_invalid_request": _metric(
        "req_remote_invalid_request_errors_total", "Invalid request errors that the requester saw."
    ),
    "resp_cqe_error": _metric("resp_cqes_errors_total", "Responses that completed with an error."),
    "resp_cqe_flush_error": _metric(
        "resp_cqes_flush_errors_total", "Responses that completed with a flushed error."
    ),
    "resp_local_length_error": _metric(
        "resp_local_length_errors_total", "Local length errors that the responder saw."
    ),
    "resp_remote_access_errors": _metric(
        "resp_remote_access_errors_total", "Remote access errors that the responder saw."
    ),
    "rnr_nak_retry_err": _metric(
        "rnr_nak_retry_packets_received_total", "Receiver-not-ready packets received and retried."
    ),
    "roce_adp_retrans": _metric("roce_adp_retransmits_total", "Adaptive retransmissions of RoCE traffic."),
    "roce_adp_retrans_to": _metric(
        "roce_adp_retransmits_timeout_total", "Timeouts of RoCE traffic due to adaptive retransmission."
    ),
    "roce_slow_restart": _metric("roce_slow_restart_used_total", "Times that RoCE slow restart was used."),
    "roce_slow_restart_cnps": _metric(
        "roce_slow_restart_cnps_total", "Congestion notifications that RoCE slow restart generated."
    ),
    "roce_slow_restart_trans": _metric("roce_slow_restart_total", "Changes of state into RoCE slow restart."),
    "rp_cnp_handled": _metric(
        "rp_cnp_packets_handled_total", "Congestion notifications that throttled this adapter's sending."
    ),
    "rp_cnp_ignored": _metric(
        "rp_cnp_ignored_packets_received_total", "Congestion notifications received and ignored."
    ),
    "rx_atomic_requests": _metric("rx_atomic_requests_total", "Atomic requests received."),
    "rx_dct_connect": _metric("rx_dct_connect_requests_total", "Dynamic connection requests received."),
    "rx_icrc_encapsulated": _metric(
        "rx_icrc_encapsulated_errors_total", "RoCE packets with a checksum (ICRC) error."
    ),
    "rx_read_requests": _metric("rx_read_requests_total", "RDMA read requests received."),
    "rx_write_requests": _metric("rx_write_requests_total", "RDMA write requests received."),
}

# Milliseconds in the file: two reads closer together than this may show the same counts.
LIFESPAN_FILE = "lifespan"
LIFESPAN = _metric("lifespan_seconds", "Longest age that a hardware counter's value may have.", "gauge")
