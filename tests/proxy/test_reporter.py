"""What happens to a node's proxy is counted, logged, and told to those whose Service it is."""

from typing import Any

from zoneward.daemon.log import SilentLog
from zoneward.daemon.metrics import counter_total
from zoneward.kube.objects import ObjectMeta, Service
from zoneward.proxy.proxy_metrics import ProxyMetrics
from zoneward.proxy.reporter import ProxyReporter
from zoneward.proxy.ruleset.service_size import ServiceTooLarge


class EventList:
    """Keeps the events that are recorded."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, str]] = []

    def record(self, service: Service, reason: str, note: str) -> None:
        self.events.append((service.metadata.name, reason, note))


class Lines(SilentLog):
    def __init__(self) -> None:
        self.errors: list[dict[str, Any]] = []
        self.warnings: list[dict[str, Any]] = []

    def error(self, event: str, **fields: Any) -> None:
        self.errors.append({"event": event, **fields})

    def warning(self, event: str, **fields: Any) -> None:
        self.warnings.append({"event": event, **fields})


def reporting(metrics: ProxyMetrics, told: EventList, lines: Lines) -> ProxyReporter:
    return ProxyReporter(
        metrics,
        log=lines,
        recorder=told,  # type: ignore[arg-type]
        service=lambda key: Service(metadata=ObjectMeta(namespace=key[0], name=key[1])),
        said=str,
    )


def test_a_service_that_is_too_large_is_counted_logged_and_reported() -> None:
    metrics, told, lines = ProxyMetrics(), EventList(), Lines()
    reporting(metrics, told, lines).service_too_large(("shop", "cart"), ServiceTooLarge("ip6", 300_000, 250_000))
    assert {family: counter_total(each) for family, each in metrics.refusals.items()} == {"ip": 0, "ip6": 1}
    ((name, reason, note),) = told.events
    assert (name, reason) == ("cart", "ServiceNotProgrammed")
    assert note == (
        "it is too large: the addresses and endpoints of all its ports come to 300,000 entries in IPv6, "
        "expected at most 250,000 (--max-service-entries)"
    )
    ((line),) = lines.errors
    assert (line["event"], line["service"]) == ("a Service could not be programmed", "shop/cart")


def test_conflicts_and_omitted_values_are_logged_and_reported() -> None:
    told, lines = EventList(), Lines()
    reports = reporting(ProxyMetrics(), told, lines)
    reports.addresses_contested("ip", ("shop", "cart"), ("10.96.0.10 of kube-system/kube-dns", "2 more"))
    reports.values_left_out(("shop", "cart"), ("external IP 127.0.0.1 is loopback", "endpoint 'x' is no IPv4 address"))
    # By now all is well.
    reports.addresses_contested("ip", ("shop", "cart"), ())
    reports.values_left_out(("shop", "cart"), ())
    assert told.events == [
        (
            "cart",
            "ServiceAddressContested",
            "it does not get what is another Service's: 10.96.0.10 of kube-system/kube-dns, 2 more",
        ),
        (
            "cart",
            "ServicePartlyProgrammed",
            "not programmed: external IP 127.0.0.1 is loopback; endpoint 'x' is no IPv4 address",
        ),
    ]
    assert [(each["event"], each["service"]) for each in lines.warnings] == [
        ("other Services have what a Service asks for", "shop/cart"),
        ("a part of a Service is left out", "shop/cart"),
    ]


def test_an_invalid_node_address_is_logged_in_one_line() -> None:
    lines = Lines()
    reporting(ProxyMetrics(), EventList(), lines).node_address_left_out("192.168.77.1 }\nadd table inet X")
    assert lines.warnings[0]["address"] == r"'192.168.77.1 }\nadd table inet X'"
