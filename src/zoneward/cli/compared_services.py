"""The selected Services of a snapshot, each with every approach."""

from collections import Counter
from collections.abc import Generator, Iterable
from dataclasses import dataclass, replace

from zoneward.advice.cluster_abilities import ClusterAbilities, abilities_of, kubernetes_minor
from zoneward.advice.comparison import COMPARED, Recommendation, recommend
from zoneward.advice.node_proxies import NodeProxies
from zoneward.cli.cluster_input import load_configuration
from zoneward.cli.options import Options, unknown_approach
from zoneward.cli.planned_services import SelectedServices, configuration_of_kubernetes, select_services
from zoneward.cli.service_processes import CHUNK, in_processes, waiting
from zoneward.kube.input_error import InputError
from zoneward.kube.objects import Service
from zoneward.routing.what_if import find_what_if_value


@dataclass(frozen=True)
class ComparisonRequest:
    """What is compared: some approaches for the selected Services of a snapshot.

    If options change the cluster, proxies and abilities are those of the cluster as it was read. ``flows``: with those
    between zones. ``writes_slices``: somebody else than Kubernetes writes the slices, or is asked about.
    """

    selected: SelectedServices
    approaches: tuple[str, ...]
    node_proxies: NodeProxies
    abilities: ClusterAbilities
    flows: bool = False
    writes_slices: bool = True

    @property
    def proxies(self) -> dict[str, int]:
        """The number of nodes where traffic starts, by the title of their kind of proxy."""
        nodes = (self.selected.unchanged or self.selected).cluster_state.demand.nodes
        return dict(Counter(self.node_proxies.on(node.name).title for node in nodes))

    def compare(self, service: Service) -> tuple[Recommendation, ...]:
        """All address families of one of the Services."""
        return recommend(
            self.selected.input_of(service),
            approaches=self.approaches,
            node_proxies=self.node_proxies,
            abilities=self.abilities,
            unchanged=None if self.selected.unchanged is None else self.selected.unchanged.input_of(service),
            flows=self.flows,
        )


def chosen_approaches(only: Iterable[str], options: Options) -> tuple[str, ...]:
    """The approaches that ``--only`` names, in the default order; all if it names none. ``Auto`` is what the
    configuration says.

    Raises InputError.
    """
    named = set()
    for name in (name.strip() for names in only for name in names.split(",")):
        value = find_what_if_value(name)
        if value is None:
            raise InputError("--only", unknown_approach(name))
        named.add(load_configuration(options).hints.auto if value == "Auto" else value)
    return tuple(approach for approach in COMPARED if approach in named) if named else COMPARED


def read_request(options: Options, approaches: tuple[str, ...]) -> ComparisonRequest:
    """Read the snapshot. Raises InputError or a usage error, before anything is printed."""
    with waiting(options, "reading"):
        selected = select_services(options)
    read = selected.unchanged or selected
    abilities = abilities_of(
        read.snapshot.slices,
        node_proxies=read.node_proxies,
        configuration=selected.configuration,
        kubernetes=kubernetes_minor(read.snapshot.nodes),
    )
    if options.with_mode in ("controller", "proxy"):
        abilities = replace(abilities, controller=True)
    of_kubernetes = configuration_of_kubernetes(selected.configuration, options, read.snapshot)
    return ComparisonRequest(selected, approaches, read.node_proxies, abilities, writes_slices=of_kubernetes is None)


def compare_services(
    request: ComparisonRequest, options: Options, *, processes: int | None = None, chunk: int = CHUNK
) -> Generator[Recommendation, None, None]:
    """Yield the recommendations for all selected Services in their order, as soon as they are computed."""
    services = request.selected.services
    for recommendations in in_processes(request.compare, services, options, processes=processes, chunk=chunk):
        yield from recommendations
