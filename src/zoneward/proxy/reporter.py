"""What the parts of the proxy report, as an interface: `zoneward.proxy.proxy_reporter` logs and counts it."""

from zoneward.client.api_errors import CallFailed
from zoneward.client.list_watch_decoder import UnreadableObject
from zoneward.netlink.messages import Family
from zoneward.proxy.model.node_service import ServiceKey
from zoneward.proxy.ruleset.service_rules import ServiceTooLarge


class Reporter:
    """A Reporter that ignores everything. Subclasses override methods."""

    def service_synced(self, seconds: float) -> None:
        """The kernel has a change of a Service in one family, ``seconds`` after the cache had it."""

    def endpoints_programmed(self, seconds: float) -> None:
        """The kernel has a change of endpoints, ``seconds`` after its time according to the EndpointSlice."""

    def service_refused(self, family: Family, service: ServiceKey, why: str) -> None:
        """The kernel rejected a Service; what it accepted of it before is still programmed."""

    def service_too_large(self, service: ServiceKey, error: ServiceTooLarge) -> None:
        """A Service exceeds its own limit. Called once; it keeps its rules, without deleted endpoints."""

    def service_set_aside(self, service: ServiceKey, why: str) -> None:
        """A Service is not programmed because it exceeds the limit of its namespace or of the node."""

    def addresses_contested(self, family: Family, service: ServiceKey, what: tuple[str, ...]) -> None:
        """The addresses and ports that a Service requests and other Services own changed; empty: it owns all."""

    def values_left_out(self, service: ServiceKey, what: tuple[str, ...]) -> None:
        """The values of a Service that cannot be programmed changed; empty: all can."""

    def selection_failed(self, service: ServiceKey, why: str) -> None:
        """An internal error while selecting endpoints; the Service keeps its rules and is retried."""

    def unreadable(self, unreadable: UnreadableObject) -> None:
        """An object could not be decoded; what was programmed of it stays."""

    def health_port_failed(self, service: ServiceKey, port: int, why: str) -> None:
        """A health check node port cannot be opened; this is retried. Called once for each reason."""

    def node_address_left_out(self, address: str) -> None:
        """An address of the Node is invalid."""

    def transaction_committed(self, family: Family, *, elements: int, seconds: float) -> None:
        """The kernel accepted a transaction that adds or removes this number of elements, and took this time."""

    def rules_repaired(self, family: Family, what: str, count: int) -> None:
        """Rules that another program had changed were repaired. ``what``: one of the label values of the metric."""

    def kernel_failed(self, why: str) -> None:
        """The kernel could not be programmed; this is retried."""

    def flows_removed(self, count: int) -> None:
        """Stale UDP flows were removed from connection tracking."""

    def conntrack_failed(self, why: str) -> None:
        """Stale UDP flows could not be read or removed; this is retried."""

    def counting_failed(self, why: str) -> None:
        """Connections could not be counted; this is retried."""

    def lease_failed(self, error: CallFailed) -> None:
        """The node's Lease could not be written; this is retried."""
