"""The sample cluster with a namespace for each of its zones: sandbox, controller, and a node's proxy in each of them.

All are the programs that users start. They talk over the wire of the `Bed`, which the sandbox shares with the
nodes; a zone's namespace has the addresses of all Pods of that zone, and its first node's proxy.
"""

import json
import sys
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Final, Self

from e2e.controllers import command_json
from e2e.nodes import Bed, Namespace
from e2e.processes import Process, wait_until
from e2e.proxies import ZonewardProxy
from e2e.sandbox import a_sandbox
from tests.contract.api import Object

from zoneward.kube.object_reader import read_objects
from zoneward.kube.objects import Service, node_zone
from zoneward.routing.configuration import Configuration
from zoneward.routing.what_if import as_if_requested
from zoneward.sample import cluster
from zoneward.snapshots.cluster_snapshot import Snapshot

_COMMAND: Final = (sys.executable, "-m", "zoneward")
_PROXY: Final = ("--proxy", "zoneward")
"""The sample says that kube-proxy runs on its nodes."""


class Zones:
    """Enter the block to start everything, leave it to end it. ``folder`` gets logs and the kubeconfig."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._cleanup = ExitStack()
        self.kubeconfig: Final = folder / "kubeconfig"
        self.snapshot: Final = Snapshot.of(read_objects("the sample", cluster().read_bytes(), skipped=Counter()))
        self.nodes: dict[str, str] = {}
        """By zone, the node whose proxy runs there."""
        for name, zone in sorted((node.metadata.name, node_zone(node)) for node in self.snapshot.nodes):
            if zone is not None:
                self.nodes.setdefault(zone, name)
        self._proxies: dict[str, ZonewardProxy] = {}
        self.clients: dict[str, Namespace] = {}
        """By zone, a Pod to ask from."""

    def __enter__(self) -> Self:
        with self._cleanup as cleanup:
            bed = cleanup.enter_context(Bed(ports=self._ports()))
            places = {
                zone: bed.node(self.nodes[zone], pods=pod_ranges) for zone, pod_ranges in sorted(self._ranges().items())
            }
            # No Pod of the sample has this address.
            self.clients = {
                zone: sender.pod(sender.ranges[0].replace("0/24", "250")) for zone, sender in places.items()
            }
            self._server = bed.outside()
            self._start_all(cleanup)
            for zone, zone_node in places.items():
                proxy = ZonewardProxy(zone_node, self.kubeconfig, self._folder)
                self._proxies[zone] = cleanup.enter_context(proxy)
                proxy.start()
            self._cleanup = cleanup.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._cleanup.close()

    def ask_for(self, value: str) -> None:
        """Set every Service to a value of ``--what-if``, and wait until every kernel has it."""
        for service in self.snapshot.services:
            wished = as_if_requested(service, value, Configuration())
            self._server.call(self._api.patch, _object(service), _wish(service, wished))
        # The controller has written what it decides, and each proxy serves what `route` says.
        wait_until(lambda: not any(map(_writes, self.decisions())), "slices as they are planned")
        for zone in self.nodes:
            wait_until(partial(self._serves, zone), f"a proxy in {zone} that serves what route says")

    def _serves(self, zone: str) -> bool:
        proxy = self._proxies[zone]
        if proxy.get("/readyz")[0] != 200:
            return False
        # In this order: what is selected waits for the kernel then.
        is_selected = _clusters(self.route(zone)) == _clusters(json.loads(proxy.get("/debug/selection")[1]))
        return is_selected and not proxy.metric("zoneward_proxy_waiting_seconds")

    def decisions(self, *flags: str) -> list[Object]:
        """The decisions of `plan` about the cluster as it is."""
        return list(self._zoneward("plan", "-A", "--with", "controller", *_PROXY, *flags)["decisions"])

    def route(self, zone: str) -> Object:
        """The output of `route` for the node in a zone and the existing slices."""
        return self._zoneward("route", "-A", *_PROXY, "--as-is", "--node", self.nodes[zone])

    def service(self, namespace: str, name: str) -> Service | None:
        """A Service of the sample, or None."""
        key = namespace, name
        decisions = (
            service for service in self.snapshot.services if (service.metadata.namespace, service.metadata.name) == key
        )
        return next(decisions, None)

    def zones_of_endpoints(self) -> Mapping[str, str]:
        """The zone of each Pod's address."""
        zones = {node.metadata.name: node_zone(node) for node in self.snapshot.nodes}
        return {
            address.ip: zone
            for pod in self.snapshot.pods
            for address in pod.status.pod_ips or ()
            if (zone := zones.get(pod.spec.node_name)) is not None
        }

    # --- parts --------------------------------------------------------------------------------------------------------

    def _start_all(self, cleanup: ExitStack) -> None:
        flags = ("--sample", "--listen", self._server.addresses[0])
        self._api = cleanup.enter_context(a_sandbox(self._folder, *flags, network=self._server)).api
        # A connection belongs to the thread that uses it.
        cleanup.callback(lambda: self._server.call(self._api.close))
        command = [*self._server.enter, *_COMMAND, "controller", "--take-over", "--no-leader-elect"]
        command += ["--listen", "127.0.0.1:0", "--kubeconfig", str(self.kubeconfig)]
        cleanup.enter_context(Process(command, log=self._folder / "controller.log"))

    def _zoneward(self, *words: str) -> Object:
        document: Object = self._server.call(command_json, self.kubeconfig, *words)
        return document

    def _ports(self) -> list[int]:
        """All ports of the sample's Pods, except low ones that other programs may use too."""
        listening = {
            port.container_port
            for pod in self.snapshot.pods
            for container in pod.spec.containers or ()
            for port in container.ports or ()
        }
        return sorted(listening | {8080})

    def _ranges(self) -> dict[str, list[str]]:
        """By zone, the addresses of its Pods."""
        ranges: dict[str, set[str]] = {}
        for address, zone in self.zones_of_endpoints().items():
            if ":" not in address:
                ranges.setdefault(zone, set()).add(f"{address.rpartition('.')[0]}.0/24")
        return {zone: sorted(addresses) for zone, addresses in ranges.items()}


def _wish(service: Service, wished: Service) -> Object:
    """The patch that gives a Service the settings of another."""
    before, after = service.metadata.annotations or {}, wished.metadata.annotations or {}
    annotations: dict[str, str | None] = {**dict.fromkeys(before), **after}
    return {"metadata": {"annotations": annotations}, "spec": {"trafficDistribution": wished.spec.traffic_distribution}}


def _object(service: Service) -> Object:
    named = {"namespace": service.metadata.namespace, "name": service.metadata.name}
    return {"apiVersion": "v1", "kind": "Service", "metadata": named}


def _writes(decision: Object) -> int:
    slices = decision["slices"]
    return int(slices["create"] + slices["update"] + slices["delete"])


def _clusters(route: Object) -> list[tuple[object, ...]]:
    """By Service, family and port, the endpoints and their weights."""
    return sorted(
        (
            *(port[key] for key in ("namespace", "service", "addressType", "port")),
            sorted(zip_longest(port["cluster"] or (), port.get("weights") or ())),
            sorted(port["local"] or ()),
        )
        for port in route["ports"]
    )
