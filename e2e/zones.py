"""The sample cluster with a namespace for each of its zones: sandbox, controller, and a node's proxy in each of them.

All are the programs that users start. They talk over the wire of the `Bed`, on which the sandbox stands beside the
nodes; a zone's namespace has the addresses of all Pods of that zone, and its first node's proxy.
"""

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Final, Self

import yaml
from e2e.nodes import Bed, Namespace, Node
from e2e.processes import Process
from tests.contract.api import Api, Object

from zoneward.kube.object_reader import read_objects
from zoneward.kube.objects import Service, node_zone
from zoneward.routing.request.what_if import as_if_requested
from zoneward.sample import cluster
from zoneward.snapshots.cluster_snapshot import Snapshot

_COMMAND: Final = (sys.executable, "-m", "zoneward")
_PATIENCE: Final = 60.0
_CIDR: Final = "10.244.0.0/16"


class Zones:
    """Enter the block to start everything, leave it to end it. ``folder`` gets logs and the kubeconfig."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._cleanup = ExitStack()
        self.kubeconfig: Final = folder / "kubeconfig"
        self.snapshot: Final = Snapshot.of(read_objects("the sample", cluster().read_bytes(), skipped=Counter()))
        self.nodes: dict[str, str] = {}
        """By zone, the node whose proxy runs there."""
        self._places: dict[str, Node] = {}
        self.clients: dict[str, Namespace] = {}
        """By zone, a Pod to ask from."""

    def __enter__(self) -> Self:
        with self._cleanup as cleanup:
            bed = cleanup.enter_context(Bed(ports=self._ports()))
            for zone, ranges in sorted(self._ranges().items()):
                place = self._places[zone] = bed.node(zone, pods=ranges)
                # No Pod of the sample has an address so high.
                self.clients[zone] = place.pod(ranges[0].replace("0/24", "250"))
            names = {each.metadata.name: node_zone(each) for each in self.snapshot.nodes}
            for name, of in sorted(names.items()):
                if of is not None:
                    self.nodes.setdefault(of, name)
            self._server = bed.outside()
            self._start_all(cleanup)
            self._cleanup = cleanup.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._cleanup.close()

    def ask_for(self, value: str) -> None:
        """Let every Service ask for a value of ``--what-if``, and wait until that is in every kernel."""
        for service in self.snapshot.services:
            self._server.call(self._api.patch, _object(service), _wish(service, as_if_requested(service, value)))
        self.settle()

    def settle(self) -> None:
        """Wait until the controller has written what it decides, and each proxy serves what `route` says."""
        self._until(lambda: all(not _writes(each) for each in self.decisions()), what="slices as they are planned")
        for zone in self.nodes:
            serves = partial(self._serves, zone)
            self._until(serves, what=f"a proxy in {zone} that serves what route says")

    def _serves(self, zone: str) -> bool:
        return _clusters(self.route(zone)) == _clusters(self.selection(zone))

    def decisions(self) -> list[Object]:
        """What `plan` says of the cluster as it is."""
        found: list[Object] = json.loads(self._zoneward("plan", "-A", "-o", "json"))["decisions"]
        return found

    def route(self, zone: str) -> Object:
        """What `route` says of the node in a zone, of the slices as they are."""
        found: Object = json.loads(self._zoneward("route", "-A", "--as-is", "--node", self.nodes[zone], "-o", "json"))
        return found

    def selection(self, zone: str) -> Object:
        """What the proxy there says that it serves; nothing while it has changes to program."""
        place = self._places[zone]
        if "ok" not in _fetched(place, "/readyz") or _waiting(_fetched(place, "/metrics")):
            return {"ports": []}
        found: Object = json.loads(_fetched(place, "/debug/selection"))
        return found

    def measured(self) -> dict[str, Object]:
        """What each zone's proxy has counted."""
        # A look at the kernel is not repeated within a second.
        time.sleep(1.1)
        return {zone: json.loads(_fetched(place, "/measured")) for zone, place in self._places.items()}

    def decisions_measured(self, documents: Iterable[Object]) -> list[Object]:
        """What `plan` says of the cluster beside what was measured."""
        file = self._folder / "measured.jsonl"
        file.write_text("".join(f"{json.dumps(each)}\n" for each in documents))
        found: list[Object] = json.loads(self._zoneward("plan", "-A", "-o", "json", "--measured", str(file)))[
            "decisions"
        ]
        return found

    def service(self, namespace: str, name: str) -> Service | None:
        """Of the sample; None for one that is none of it."""
        key = namespace, name
        found = (each for each in self.snapshot.services if (each.metadata.namespace, each.metadata.name) == key)
        return next(found, None)

    def zones_of_endpoints(self) -> Mapping[str, str]:
        """The zone of each Pod's address."""
        zones = {each.metadata.name: node_zone(each) for each in self.snapshot.nodes}
        return {
            address.ip: zone
            for pod in self.snapshot.pods
            for address in pod.status.pod_ips or ()
            if (zone := zones.get(pod.spec.node_name)) is not None
        }

    # --- parts --------------------------------------------------------------------------------------------------------

    def _start_all(self, cleanup: ExitStack) -> None:
        server, log = self._server, self._folder
        address = server.addresses[0]
        self._start(
            cleanup,
            server,
            *("sandbox", "--sample", "--listen", address, "--write-kubeconfig", str(self.kubeconfig)),
            log=log / "sandbox.log",
        )
        self._until(self.kubeconfig.exists, what="a sandbox")
        known = yaml.safe_load(self.kubeconfig.read_text())
        self._api = Api(known["clusters"][0]["cluster"]["server"], known["users"][0]["user"]["token"])
        cleanup.callback(lambda: server.call(self._api.close))
        access = ("--kubeconfig", str(self.kubeconfig))
        self._start(
            cleanup,
            server,
            *("controller", "--take-over", "--no-leader-elect", "--listen", "127.0.0.1:0", *access),
            log=log / "controller.log",
        )
        for zone, node in self.nodes.items():
            self._start(
                cleanup,
                self._places[zone],
                *("proxy", "--node", node, "--cluster-cidr", _CIDR, *access),
                log=log / f"proxy-{zone}.log",
            )

    def _start(self, cleanup: ExitStack, where: Namespace, *words: str, log: Path) -> None:
        cleanup.enter_context(Process([*where.enter, *_COMMAND, *words], log=log))

    def _zoneward(self, *words: str) -> str:
        command = [*self._server.enter, *_COMMAND, *words, "--kubeconfig", str(self.kubeconfig), "-q"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def _until(self, holds: Callable[[], object], *, what: str) -> None:
        limit = time.monotonic() + _PATIENCE
        while not holds():
            assert time.monotonic() < limit, f"no {what} within {_PATIENCE:g} s"
            time.sleep(0.1)

    def _ports(self) -> list[int]:
        """All that Pods of the sample listen on, but what would be too low to be told from others'."""
        found = {
            port.container_port
            for pod in self.snapshot.pods
            for container in pod.spec.containers or ()
            for port in container.ports or ()
        }
        return sorted(found | {8080})

    def _ranges(self) -> dict[str, list[str]]:
        """By zone, the addresses of its Pods."""
        found: dict[str, set[str]] = {}
        for address, zone in self.zones_of_endpoints().items():
            if ":" not in address:
                found.setdefault(zone, set()).add(f"{address.rpartition('.')[0]}.0/24")
        return {zone: sorted(some) for zone, some in found.items()}


def _wish(service: Service, wished: Service) -> Object:
    """What makes one Service ask as the other."""
    before, after = service.metadata.annotations or {}, wished.metadata.annotations or {}
    annotations: dict[str, str | None] = {**dict.fromkeys(before), **after}
    return {"metadata": {"annotations": annotations}, "spec": {"trafficDistribution": wished.spec.traffic_distribution}}


def _object(service: Service) -> Object:
    return {"apiVersion": "v1", "kind": "Service", "metadata": _named(service.metadata)}


def _named(metadata: Any) -> Object:
    return {"namespace": metadata.namespace, "name": metadata.name}


def _writes(decision: Object) -> int:
    slices = decision["slices"]
    return int(slices["create"] + slices["update"] + slices["delete"])


def _clusters(route: Object) -> list[Object]:
    return sorted(
        (
            {
                key: sorted(each[key] or ()) if key in ("cluster", "local") else each[key]
                for key in ("namespace", "service", "addressType", "port", "cluster", "local")
            }
            for each in route["ports"]
        ),
        key=lambda each: [each[key] for key in ("namespace", "service", "addressType", "port")],
    )


def _fetched(place: Namespace, path: str) -> str:
    done = subprocess.run(
        [*place.enter, sys.executable, "-c", _FETCH, f"http://127.0.0.1:10272{path}"],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout


_FETCH: Final = """
import sys, urllib.request
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
sys.stdout.write(opener.open(sys.argv[1], timeout=10).read().decode())
"""


def _waiting(metrics: str) -> bool:
    lines = [line for line in metrics.splitlines() if line.startswith("zoneward_proxy_waiting_seconds ")]
    return not lines or float(lines[0].split()[1]) > 0
