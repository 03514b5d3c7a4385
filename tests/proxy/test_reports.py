"""What happens to a node's proxy is counted, logged, and told to those whose Service it is."""

from typing import Any

from zoneward.daemon.log import Silent
from zoneward.kube.objects import ObjectMeta, Service
from zoneward.proxy.large_services import TooLarge
from zoneward.proxy.metrics import Metrics
from zoneward.proxy.reports import Reports


class Told:
    """In place of a Teller."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, str]] = []

    def tell(self, service: Service, reason: str, note: str) -> None:
        self.events.append((service.metadata.name, reason, note))


class Lines(Silent):
    def __init__(self) -> None:
        self.errors: list[dict[str, Any]] = []

    def error(self, event: str, **fields: Any) -> None:
        self.errors.append({"event": event, **fields})


def test_a_service_that_is_too_large_is_counted_logged_and_told() -> None:
    metrics, told, lines = Metrics(), Told(), Lines()
    reports = Reports(
        metrics,
        log=lines,
        teller=told,  # type: ignore[arg-type]
        service=lambda key: Service(metadata=ObjectMeta(namespace=key[0], name=key[1])),
        said=str,
    )
    reports.too_large(("shop", "cart"), TooLarge("ip6", 300_000, 250_000))
    assert metrics.refused == {"ip6": 1}
    ((name, reason, note),) = told.events
    assert (name, reason) == ("cart", "ServiceNotProgrammed")
    assert note == (
        "it is too large: the addresses and endpoints of all its ports come to 300,000 entries in IPv6, "
        "expected at most 250,000 (--max-service-entries)"
    )
    ((line),) = lines.errors
    assert (line["event"], line["service"]) == ("a Service could not be programmed", "shop/cart")
