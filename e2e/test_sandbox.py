"""Kubernetes' own slice controller writes the same slices in a sandbox as in a real cluster."""

from functools import partial
from pathlib import Path

from e2e.control_plane import SLICE_CONTROLLERS, ControlPlane, controller_flags
from e2e.pods import LABELS, Shop, a_shop, address
from e2e.processes import Process, wait_until
from e2e.sandbox import a_sandbox
from tests.builders.objects import a_service
from tests.contract.api import Object

NAMESPACE = "shop"
CONTROLLER = SLICE_CONTROLLERS[0]
AUTO = {"service.kubernetes.io/topology-mode": "Auto"}
CART = a_service("cart", namespace=NAMESPACE, selector=LABELS, annotations=AUTO)
GONE = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "cart-1", "namespace": NAMESPACE}}


def endpoints(shop: Shop) -> dict[str, Object]:
    """By address."""
    return {endpoint["addresses"][0]: endpoint for item in shop.slices("cart") for endpoint in item["endpoints"] or ()}


def comparable(shop: Shop) -> list[Object]:
    """The slices without fields that differ between runs."""
    written = shop.slices("cart")
    for item in written:
        metadata: Object = item["metadata"]
        for name in ("name", "uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"):
            metadata.pop(name, None)
        metadata.setdefault("annotations", {}).pop("endpoints.kubernetes.io/last-change-trigger-time", None)
        for owner in metadata["ownerReferences"]:
            del owner["uid"]
        for endpoint in item["endpoints"]:
            del endpoint["targetRef"]["uid"]
        item["endpoints"].sort(key=lambda endpoint: str(endpoint["addresses"]))
    return written


def test_built_in_slice_controller_writes_the_same_slices_in_a_sandbox(tmp_path: Path) -> None:
    with a_sandbox(tmp_path) as sandbox, ControlPlane(controllers=[CONTROLLER]) as plane:
        flags = controller_flags(sandbox.kubeconfig, [CONTROLLER], certificates=tmp_path / "certificates")
        # There are no permissions to look up in a sandbox, which speaks JSON.
        own = ("--authentication-skip-lookup", "--kube-api-content-type=application/json")
        command: list[str | Path] = [plane.programs["kube-controller-manager"], *flags, *own]
        written = []
        with Process(command, log=tmp_path / "controllers.log") as process:
            for shop in (Shop(sandbox.api, NAMESPACE), Shop(plane.api(), NAMESPACE)):
                listed = partial(endpoints, shop)
                shop.api.create_all([*a_shop(NAMESPACE, 9), CART])
                wait_until(lambda listed=listed: len(listed()) == 9, "nine endpoints", process)  # type: ignore[misc]
                shop.make_ready("cart-0", False)
                shop.api.delete(GONE)
                wait_until(
                    lambda listed=listed: len(listed()) == 8 and not listed()[address(0)]["conditions"]["ready"],  # type: ignore[misc]
                    "one is gone, and one is not ready",
                    process,
                )
                written.append(comparable(shop))
    assert written[0] == written[1]
    assert sum(endpoint["conditions"]["ready"] for endpoint in written[0][0]["endpoints"]) == 7
