"""Services: defaults, allocation, what is refused (upstream's ``pkg/registry/core/service``, v1.36)."""

from collections.abc import Iterable, Sequence
from itertools import chain

from zoneward.kube.validation import FieldError
from zoneward.sandbox.server.allocation import CLUSTER_IPS, CLUSTER_IPS_V6, AddressRange, PortRange
from zoneward.sandbox.server.kinds import Object, Rules, Surroundings
from zoneward.sandbox.server.rules import metadata
from zoneward.sandbox.server.rules.service_addresses import Addresses
from zoneward.sandbox.server.rules.service_defaults import drop_with_type, fill
from zoneward.sandbox.server.rules.service_needs import fill_from, is_same, normalize
from zoneward.sandbox.server.rules.service_validation import change_errors, service_errors, status_errors


class ServiceRules(Rules):
    """Upstream allocates before it judges, so that what cannot be allocated is all it tells then; here either order
    will do: ``allocate`` may come right after ``default`` or last. Where anything refuses after it, call
    ``release(old, new)``, for a new object ``release(None, new)``.
    """

    has_generation = False
    name_problems = staticmethod(metadata.label_name_problems)

    def __init__(
        self,
        *,
        addresses: Sequence[AddressRange] | None = None,
        ports: PortRange | None = None,
        service_traffic_distribution: bool = True,
        prefer_same_traffic_distribution: bool = True,
    ) -> None:
        """``addresses``: a range, or one of each family, the default first; ValueError for two of one family. The last
        two are upstream's gates ``ServiceTrafficDistribution`` and ``PreferSameTrafficDistribution``.
        """
        ranges = (AddressRange(CLUSTER_IPS), AddressRange(CLUSTER_IPS_V6)) if addresses is None else addresses
        self._addresses = Addresses(ranges, ports or PortRange())
        self._has_distribution = service_traffic_distribution
        self._has_same = prefer_same_traffic_distribution

    def default(self, new: Object, old: Object | None = None) -> None:
        if old is not None and new.get("spec") == old.get("spec") and new.get("status") == old.get("status"):
            new["spec"] = dict(old["spec"])
            return
        fill(new)

    # --- creating and changing ----------------------------------------------------------------------------------------

    def prepare_create(self, new: Object, surroundings: Surroundings) -> None:
        new["status"] = {"loadBalancer": {}}
        self._settle(new, None)
        self._drop_disabled(new, None)

    def metadata_errors(self, new: Object) -> Iterable[FieldError]:
        return metadata.metadata_errors(new, name_problems=self.name_problems, is_namespaced=True)

    def validate_create(self, new: Object) -> Iterable[FieldError]:
        return self._settle(new, None) or service_errors(new, prefer_same_traffic_distribution=self._has_same)

    def prepare_update(self, new: Object, old: Object, surroundings: Surroundings) -> None:
        new["status"] = old["status"]
        self._settle(new, old)
        self._drop_disabled(new, old)
        drop_with_type(new, old)

    def metadata_update_errors(self, new: Object, old: Object) -> Iterable[FieldError]:
        return metadata.metadata_update_errors(new, old)

    def validate_update(self, new: Object, old: Object) -> Iterable[FieldError]:
        return self._settle(new, old) or chain(
            change_errors(new, old),
            service_errors(new, old=old, prefer_same_traffic_distribution=self._has_same),
        )

    def prepare_status(self, new: Object, old: Object, surroundings: Surroundings) -> None:
        new["spec"] = old["spec"]

    def validate_status(self, new: Object, old: Object) -> Iterable[FieldError]:
        return status_errors(new)

    def _settle(self, new: Object, old: Object | None) -> list[FieldError]:
        """What was allocated stays, and families are chosen. Again changes nothing."""
        spec, before = new["spec"], None if old is None else old["spec"]
        if before is not None:
            if is_same(spec, before):
                return []
            fill_from(before, spec)
        normalize(spec, before)
        return self._addresses.choose_families(spec, before)

    def _drop_disabled(self, new: Object, old: Object | None) -> None:
        spec = new["spec"]
        # Upstream drops it after it has judged it.
        if spec.get("type") == "ExternalName" and spec.get("internalTrafficPolicy") in ("Cluster", "Local"):
            del spec["internalTrafficPolicy"]
        had_distribution = old is not None and "trafficDistribution" in old["spec"]
        if not self._has_distribution and not had_distribution:
            spec.pop("trafficDistribution", None)

    # --- what is taken ------------------------------------------------------------------------------------------------

    def allocate(self, new: Object, old: Object | None) -> Iterable[FieldError]:
        """Raises Refusal where upstream has no field for what is wrong."""
        if old is not None and is_same(new["spec"], old["spec"]):
            return ()
        return self._settle(new, old) or self._addresses.take(new, old)

    def release(self, new: Object | None, old: Object) -> None:
        self._addresses.give_back(new, old)

    def restore(self, new: Object) -> Iterable[FieldError]:
        """Takes what it has, where that lies in a range of ours; gives it nothing it has not."""
        normalize(new["spec"], None)
        return self._addresses.take_all(new)
