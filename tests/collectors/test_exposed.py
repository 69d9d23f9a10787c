"""Who already reports this machine's hardware."""

from collectors.exposed import Exposed
from collectors.exposition import PageParser


def order(text: str):
    return PageParser().parse(text.encode(), "text").layout


def test_gpus_and_hosts_of_a_page_are_known_until_the_target_fails() -> None:
    exposed = Exposed()
    exposed.update(
        "t", order('DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-a"} 1\nnode_uname_info{nodename="me"} 1\n')
    )
    exposed.update("old", order('DCGM_FI_DEV_FB_USED{gpu="0",uuid="GPU-b"} 1\n'))
    assert exposed.gpu_uuids() == {"GPU-a", "GPU-b"}
    assert exposed.reports_host("me")
    assert not exposed.reports_host("other")
    exposed.forget("t")
    assert exposed.gpu_uuids() == {"GPU-b"}
    assert not exposed.reports_host("me")


def test_a_label_on_other_metrics_does_not_silence_a_gpu() -> None:
    exposed = Exposed()
    exposed.update("t", order('vllm:cache{UUID="GPU-a"} 1\nnode_time_seconds{nodename="me"} 1\n'))
    assert exposed.gpu_uuids() == frozenset()
    assert not exposed.reports_host("me")
