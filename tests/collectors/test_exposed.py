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


class CountedOrder:
    """The order of a page that counts how often labels are read."""

    def __init__(self, text: str) -> None:
        self._order = order(text)
        self.keys = self._order.keys
        self.read = 0

    def labels(self, index: int):
        self.read += 1
        return self._order.labels(index)


def test_the_labels_of_a_gpu_are_read_once_however_many_metrics_it_has() -> None:
    gpus = [f'{{gpu="{gpu}",UUID="GPU-{gpu}",modelName="M{gpu % 2}"}} 1' for gpu in range(8)]
    names = [f"DCGM_FI_{name}" for name in "ABCDEFGHIJ"]
    page = CountedOrder("".join(f"{name}{gpu}\n" for name in names for gpu in gpus))
    exposed = Exposed()
    exposed.update("t", page)
    assert page.read == 8
    assert exposed.gpu_uuids() == {f"GPU-{gpu}" for gpu in range(8)}
    assert exposed.gpu_models() == {"M0", "M1"}


def test_the_same_labels_on_another_exporters_metric_are_read_again() -> None:
    labels = '{gpu="X",UUID="GPU-a",modelName="M"} 1\n'
    exposed = Exposed()
    exposed.update("t", order(f"all_smi_gpu_temp{labels}DCGM_FI_DEV_GPU_TEMP{labels}"))
    assert exposed.gpu_uuids() == {"GPU-a"}
    assert exposed.gpu_models() == {"X", "M"}
