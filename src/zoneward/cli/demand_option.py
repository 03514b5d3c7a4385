"""``--demand``: where traffic is expected to start, instead of what the configuration says."""

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Final, get_args

from msgspec.structs import replace

from zoneward.kube.input_error import InputError
from zoneward.kube.input_files import STDIN
from zoneward.kube.near_names import did_you_mean
from zoneward.kube.prometheus_settings import PrometheusSettings, is_url, prometheus_url
from zoneward.kube.safe_text import without_password
from zoneward.routing.configuration import DemandSettings, DemandSource

SOURCES: Final[tuple[str, ...]] = get_args(DemandSource)


def choose_demand(value: str, configured: DemandSettings) -> DemandSettings:
    """One of `SOURCES`, with its settings in the configuration; a file, ``-`` or the URL of a document, which is not
    read yet; or the address of a Prometheus, which is not asked yet. Raises InputError.
    """
    if value in SOURCES:
        for source, needed in (("file", configured.file), ("prometheus", configured.prometheus)):
            if value == source and needed is None:
                raise InputError("--demand", f"expected demand.{source} in the file of --config with it, got none")
        chosen = replace(configured, source=value)
        return chosen if chosen.has_figures else DemandSettings(source=chosen.source)
    if is_url(value):
        try:
            url = prometheus_url(value)
        except ValueError as error:
            raise InputError("--demand", str(error)) from None
        if url is not None:
            return DemandSettings(source="prometheus", prometheus=PrometheusSettings(url=url))
    elif value != STDIN and not Path(value).exists():
        expected = (
            f"expected {', '.join(SOURCES)}, a file, or http://HOST:PORT of a Prometheus,"
            f" got {without_password(value)!r}"
        )
        raise InputError("--demand", expected + did_you_mean(value, SOURCES))
    return DemandSettings(source="file", file=value)


def describe_demand(settings: DemandSettings) -> Iterator[str]:
    """What is assumed of the demand of all Services, where it is not CPU."""
    if settings.zones:
        whole = sum((part for _, part in settings.zones), Fraction(0))
        yield f"demand as it was set: {', '.join(f'{zone} {float(part / whole):.0%}' for zone, part in settings.zones)}"
        if not Fraction(999, 1000) <= whole <= Fraction(1001, 1000):
            yield f"the parts of demand add up to {float(whole):g}, and count in proportion"
    elif settings.source == "nodes":
        yield "demand in proportion to the number of nodes in each zone, not to their CPU"
    elif settings.source == "even":
        yield "the same demand in every zone, with any CPU"
