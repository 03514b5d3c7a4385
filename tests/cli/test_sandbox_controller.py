"""``zoneward sandbox --with-builtin-controller``: ``adopt`` and ``release`` are rehearsed as on a real cluster."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli.test_sandbox import Running, a_sandbox
from tests.patience import PATIENCE

from zoneward.kube.names import BUILT_IN_MANAGER, MANAGED_BY_LABEL, MANAGER

pytestmark = pytest.mark.slow

CART = "/api/v1/namespaces/shop/services/cart"


def _slices(running: Running, service: str) -> dict[str, set[str]]:
    """The names of the Pods in the slices of a Service of the namespace shop, by the slices' manager."""
    path = (
        f"/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices?labelSelector=kubernetes.io/service-name={service}"
    )
    pods_by_manager: dict[str, set[str]] = {}
    for item in running.ask("GET", path)["items"]:
        pods = pods_by_manager.setdefault(item["metadata"]["labels"][MANAGED_BY_LABEL], set())
        pods.update(endpoint["targetRef"]["name"] for endpoint in item.get("endpoints") or ())
    return pods_by_manager


def _wait_for(condition: Callable[[], Any]) -> None:
    limit = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.05)


def test_a_service_is_adopted_and_released_as_beside_the_built_in_controller(tmp_path: Path) -> None:
    with a_sandbox(tmp_path, "--sample", "--with-builtin-controller") as running:
        _wait_for(lambda: len(_slices(running, "cart").get(BUILT_IN_MANAGER, ())) == 20)
        _wait_for(lambda: _slices(running, "search"))
        (_, cart), (_, search) = *_slices(running, "cart").items(), *_slices(running, "search").items()
        before = running.ask("GET", CART)

        adopted = running.run("adopt", "--force", "shop/cart")
        assert adopted.returncode == 0, adopted.stderr
        assert _slices(running, "cart") == {MANAGER: cart}
        # Both Services lose a Pod. The built-in controller serves the one, and has let go of the other.
        for pods in (cart, search):
            running.ask("DELETE", f"/api/v1/namespaces/shop/pods/{min(pods)}", {"gracePeriodSeconds": 0})
        _wait_for(lambda: _slices(running, "search") == {BUILT_IN_MANAGER: search - {min(search)}})
        assert _slices(running, "cart") == {MANAGER: cart}

        released = running.run("release", "shop/cart")
        assert (released.returncode, released.stdout) == (
            0,
            "Service shop/cart: done: managed by the built-in controller\n",
        ), released.stderr
        assert _slices(running, "cart") == {BUILT_IN_MANAGER: cart - {min(cart)}}
        after = running.ask("GET", CART)
        for service in (before, after):
            for field in ("resourceVersion", "generation", "managedFields"):
                service["metadata"].pop(field, None)
        assert after == before
        running.end()
        assert running.process.returncode == 0
