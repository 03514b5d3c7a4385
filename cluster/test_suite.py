"""Kubernetes' own tests about Services pass with Zoneward's controller and proxy. The last file: it takes longest."""

import pytest
from cluster.conformance import check_mode
from cluster.lifecycle import Cluster
from cluster.parts import Mode


@pytest.mark.timeout(3600)
def test_kubernetes_tests_pass_with_controller_and_proxy(cluster: Cluster) -> None:
    assert check_mode(cluster, Mode.BOTH) == []
