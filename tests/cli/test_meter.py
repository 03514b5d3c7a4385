"""``zoneward meter``: mistakes are reported before anything runs; what it counts is tried on real kernels (``e2e``)."""

import pytest
from tests.cli.running import Commands

BAD = {
    "no node": ((), ("--node",)),
    "too many dumps": (("--node", "n1", "--dump-period", "1s"), ("--dump-period", "2s to 5m", "1s")),
    "too few dumps": (("--node", "n1", "--dump-period", "1h"), ("--dump-period", "3600s")),
    "no duration": (("--node", "n1", "--dump-period", "soon"), ("--dump-period", "soon")),
    "no series": (("--node", "n1", "--max-series", "0"), ("--max-series", "at least 1")),
    "no address": (("--node", "n1", "--listen", "nowhere"), ("--listen", "nowhere")),
    "no kubeconfig": (("--node", "n1", "--kubeconfig", "nowhere.yaml"), ("nowhere.yaml",)),
    "no configuration": (("--node", "n1", "--config", "nowhere.yaml"), ("nowhere.yaml",)),
}


@pytest.mark.parametrize("what", BAD)
def test_a_mistake_is_one_line_that_points(zoneward: Commands, what: str) -> None:
    arguments, words = BAD[what]
    result = zoneward("meter", *arguments)
    assert (result.status, result.out) == (2, "")
    assert result.err.startswith("zoneward: ")
    assert result.err.count("\n") == 1
    assert [word for word in words if word not in result.err] == []
