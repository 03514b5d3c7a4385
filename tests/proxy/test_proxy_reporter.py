"""The reporter counts and logs what happens to a proxy, and writes Events for the Services concerned."""

from tests.controller.lines import Lines

from zoneward.daemon.metrics import counter_total, histogram_totals
from zoneward.kube.objects import ObjectMeta, Service
from zoneward.proxy.proxy_metrics import ProxyMetrics
from zoneward.proxy.proxy_reporter import ProxyReporter
from zoneward.proxy.ruleset.service_rules import ServiceTooLarge


class Scene:
    """A reporter, with its metrics, Events and log lines."""

    def __init__(self) -> None:
        self.metrics, self.events, self.log = ProxyMetrics(), list[tuple[str, str, str]](), Lines()
        self.reporter = ProxyReporter(
            self.metrics,
            log=self.log,
            recorder=self,  # type: ignore[arg-type]
            service=lambda key: Service(metadata=ObjectMeta(namespace=key[0], name=key[1])),
            said=str,
        )

    def record(self, service: Service, reason: str, note: str) -> None:
        self.events.append((service.metadata.name, reason, note))


def test_transactions_are_counted_and_timed() -> None:
    scene = Scene()
    scene.reporter.transaction_committed("ip6", elements=3, seconds=0.5)
    scene.reporter.service_synced(2.0)
    scene.reporter.endpoints_programmed(4.0)
    metrics = scene.metrics
    assert counter_total(metrics.transactions["ip6"]) == 1
    assert counter_total(metrics.changed_elements["ip6"]) == 3
    durations = (metrics.transaction_duration, metrics.sync_duration, metrics.programming_duration)
    assert [histogram_totals(duration) for duration in durations] == [(1, 0.5), (1, 2.0), (1, 4.0)]


def test_a_service_that_is_too_large_is_counted_logged_and_reported() -> None:
    scene = Scene()
    scene.reporter.service_too_large(("shop", "cart"), ServiceTooLarge("ip6", 300_000, 250_000))
    assert {family: counter_total(counter) for family, counter in scene.metrics.refusals.items()} == {"ip": 0, "ip6": 1}
    ((name, reason, note),) = scene.events
    assert (name, reason) == ("cart", "ServiceNotProgrammed")
    assert "300,000 entries in IPv6, expected at most 250,000 (--max-service-entries)" in note
    ((event, fields),) = scene.log.told
    assert (event, fields["service"]) == ("failed to program a Service", "shop/cart")


def test_a_service_that_exceeds_a_budget_is_logged_and_reported() -> None:
    scene = Scene()
    scene.reporter.service_set_aside(("shop", "cart"), "older Services come first")
    assert scene.events == [("cart", "ServiceNotProgrammed", "older Services come first")]
    ((event, fields),) = scene.log.told
    assert (event, fields["service"]) == ("a Service is not programmed", "shop/cart")


def test_conflicts_and_omitted_values_are_logged_and_reported_until_they_are_resolved() -> None:
    scene, cart = Scene(), ("shop", "cart")
    scene.reporter.addresses_contested("ip", cart, ("10.96.0.10 of kube-system/kube-dns", "2 more"))
    scene.reporter.values_left_out(cart, ("external IP 127.0.0.1 is loopback", "endpoint 'x' is no IPv4 address"))
    scene.reporter.addresses_contested("ip", cart, ())
    scene.reporter.values_left_out(cart, ())
    contested = "conflict, owned by other Services: 10.96.0.10 of kube-system/kube-dns, 2 more"
    left_out = "not programmed: external IP 127.0.0.1 is loopback; endpoint 'x' is no IPv4 address"
    assert scene.events == [
        ("cart", "ServiceAddressContested", contested),
        ("cart", "ServicePartlyProgrammed", left_out),
    ]
    assert scene.log.events == ["conflict: addresses belong to other Services", "ignoring invalid values of a Service"]


def test_an_invalid_node_address_is_logged_in_one_line() -> None:
    scene = Scene()
    scene.reporter.node_address_left_out("192.168.77.1 }\nadd table inet X")
    ((_, fields),) = scene.log.told
    assert fields["address"] == r"'192.168.77.1 }\nadd table inet X'"
