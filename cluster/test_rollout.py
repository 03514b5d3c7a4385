"""While a Deployment is rolled out under load, nothing fails with our parts that does not with the built-in ones."""

from cluster.disruptions import roll_out
from cluster.lifecycle import Cluster
from cluster.load import CLIENTS, RATE, open_connections, serve, settle
from cluster.parts import Mode

SECONDS = 30


def test_a_rollout_under_load_fails_no_connection_that_does_not_fail_with_the_built_in_parts(cluster: Cluster) -> None:
    serve(cluster, delay=5)
    told = {}
    for mode in (Mode.BUILT_IN, Mode.BOTH):
        cluster.parts.start(mode)
        settle(cluster)
        told[mode] = open_connections(cluster, SECONDS, lambda: roll_out(cluster))
        # A ticker that is late skips, on a machine with other work.
        assert told[mode].sent > 0.5 * RATE * SECONDS * len(CLIENTS)
    assert told[Mode.BOTH].failed <= told[Mode.BUILT_IN].failed, told[Mode.BOTH].lines
