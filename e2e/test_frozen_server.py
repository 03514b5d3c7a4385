"""A frozen API server behind open connections, which the kernel's keepalive probes do not detect."""

import os
import signal
import time

from e2e.control_plane import ControlPlane
from e2e.controllers import ZonewardController
from e2e.pods import LABELS, Shop, a_shop
from tests.builders.objects import a_service

from zoneward.client.reflector import ReflectorSettings
from zoneward.daemon.status_server import WATCH_LIMIT

NAMESPACE = "frozen"
MARGIN = 30.0
"""Seconds for reconnecting, with the back-off."""


def test_frozen_server_is_noticed_within_two_minutes_and_readiness_says_so() -> None:
    with ControlPlane() as plane, ZonewardController(plane) as controller:
        time.sleep(1.0)
        os.kill(plane.server.pid, signal.SIGSTOP)
        frozen = time.monotonic()
        try:
            limit = ReflectorSettings().bookmark_silence + WATCH_LIMIT + MARGIN
            while controller.is_ready and time.monotonic() - frozen < limit:
                time.sleep(1.0)
            status, text = controller.get("/readyz")
            assert (status, "no changes have been received for" in text) == (503, True), text
            assert controller.get("/livez")[0] == 200
            errors = [line["error"] for line in controller.logged("a list or watch broke off")]
            assert any("nothing came for 90 s" in error for error in errors), errors
        finally:
            os.kill(plane.server.pid, signal.SIGCONT)
        controller.wait_until(lambda: controller.is_ready, what="/readyz")
        api = plane.api()
        for object_ in (*a_shop(NAMESPACE, 1), a_service("cart", namespace=NAMESPACE, selector=LABELS)):
            api.create(object_)
        controller.wait_until(Shop(api, NAMESPACE).ready, what="an endpoint of a new Service")
