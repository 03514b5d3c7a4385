"""Where Prometheus is asked for demand, and what: ``demand.prometheus`` of the configuration."""

import json
import re
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Annotated, Final, Literal
from urllib.parse import urlsplit

from msgspec import Meta

from zoneward.kube.input_error import show
from zoneward.kube.safe_text import without_password
from zoneward.kube.settings import FileName, Seconds, Settings, bounds, parse_duration, setting_type

Preset = Literal["zoneward-meter", "zoneward-proxy"]
URL_EXPECTED: Final = "http://HOST[:PORT] or https://HOST[:PORT]"
WINDOW_VARIABLE: Final = "$window"
"""Replaced by the window in a query."""
SCRAPED_FROM: Final = "job,instance,pod"
"""Labels of the scrape, which are the same for all metrics of a program, whether ``honor_labels`` is set or not."""
_COUNTERS: Final[Mapping[Preset, tuple[str, str]]] = {
    "zoneward-meter": ("zoneward_meter_connections_total", 'from_zone!="external"'),
    "zoneward-proxy": ("zoneward_proxy_connections_total", 'asked="cluster-ip",from_zone!="external"'),
}
"""Connections that started in the cluster, to the Services' own addresses."""
_INFOS: Final[Mapping[Preset, str]] = {
    "zoneward-meter": "zoneward_meter_info",
    "zoneward-proxy": "zoneward_proxy_info",
}
Selector = tuple[tuple[str, tuple[str, ...]], ...]
"""Labels of the scrape, each with the values of which it has to have one."""
DEFAULT_SELECTOR: Final[Selector] = (("job", ("zoneward-meter", "zoneward-proxy")),)
"""The jobs that ``deploy/README.md`` and the chart have: any Pod that Prometheus scrapes can have our metrics."""
_NODE_NAME: Final = re.compile("[a-z0-9][a-z0-9.-]{0,252}")
_NODE_LABELS: Final = (("", "exported_node"), ('exported_node="",', "node"))
_LABEL: Final = re.compile("[a-zA-Z_][a-zA-Z0-9_]*")
_MOST_VALUES: Final = 100
_WINDOWS: Final = (60, 30 * 24 * 3600)
_LONGEST_QUERY: Final = 20_000
_LABEL_VALUE: Final = re.compile("[a-zA-Z0-9_.:/-]{1,200}")
_Query = Annotated[
    str,
    Meta(
        pattern=r"\S", max_length=_LONGEST_QUERY, description=f"text of at most {_LONGEST_QUERY} characters, not empty"
    ),
]


def _other_nodes(nodes: Collection[str] | None) -> tuple[str, ...]:
    """Matchers of the info metrics for all other nodes. Prometheus renames a label as `own_labels` says."""
    if nodes is None:
        return ("",)
    name, others = json.dumps(_NODE_NAME.pattern), _one_of(nodes)
    return tuple(f",{has}{label}=~{name},{label}!~{others}" for has, label in _NODE_LABELS)


def _one_of(values: Collection[str]) -> str:
    """A regular expression, as a string of PromQL, that matches these values and no other; of all characters that they
    may have only the dot has a meaning."""
    return json.dumps("|".join(value.replace(".", "[.]") for value in sorted(values)))


def is_node_name(name: str) -> bool:
    return _NODE_NAME.fullmatch(name) is not None


def own_labels(query: str, *labels: str) -> str:
    """PromQL: the series with the labels that the metric itself has.

    Where Prometheus adds labels of the same names to what it scrapes, such as ``namespace`` and ``service``, it renames
    those of the metric (``exported_...``, unless ``honor_labels`` is set).
    """
    for label in labels:
        query = f'label_replace({query},"{label}","$1","exported_{label}","(.+)")'
    return query


def window_text(seconds: int) -> str:
    for unit, name in ((3600, "h"), (60, "min")):
        if seconds % unit == 0:
            return f"{seconds // unit} {name}"
    return f"{seconds} s"


PROMETHEUS_SCHEME: Final = "prometheus+"
"""Before the URL of a Prometheus, with any path."""
_DOCUMENT: Final = re.compile(r"(?:.*/)?(?:measured|[^/]+\.(?:jsonl?|ya?ml)(?:\.gz)?)", re.DOTALL | re.IGNORECASE)
"""The path of a document: of what a meter or a proxy serves, or a file."""


def is_url(text: str) -> bool:
    """Whether a place is a URL, of a Prometheus or of a document, and no file."""
    return text.startswith(("http://", "https://", PROMETHEUS_SCHEME))


def prometheus_url(text: str) -> str | None:
    """The URL of the Prometheus that a place names, ``prometheus+URL`` or a URL alone; None where a URL is that of a
    document. Raises ValueError for what is no address of a server.
    """
    if text.startswith(PROMETHEUS_SCHEME):
        try:
            return check_url(text.removeprefix(PROMETHEUS_SCHEME))
        except ValueError as error:
            raise ValueError(f"after {PROMETHEUS_SCHEME} {error}") from None
    path = text.partition("?")[0].partition("://")[2].partition("/")[2].rstrip("/")
    return None if _DOCUMENT.fullmatch(path) else check_url(text)


def check_url(text: str) -> str:
    """The URL without a slash at its end. Raises ValueError for what is no address of a server."""
    try:
        parts = urlsplit(text)
        is_valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_valid = False
    if not is_valid or parts.query or parts.fragment or not text.isprintable() or " " in text:
        raise ValueError(f"expected {URL_EXPECTED}, got {show(without_password(text))}")
    return text.rstrip("/")


# --- how values are read ----------------------------------------------------------------------------------------------


def parse_window(value: object) -> int:
    """Seconds of a duration from 1m to 720h. Raises ValueError."""
    seconds = parse_duration(value if isinstance(value, str) else show(value))
    if not _WINDOWS[0] <= seconds <= _WINDOWS[1]:
        raise ValueError(f"expected a duration from 1m to 720h, got {show(value)}")
    return int(seconds)


def _parse_selector(value: object) -> Selector:
    if not isinstance(value, Mapping) or not value:
        raise ValueError(f"expected a map from labels to a value or a list of them, got {show(value)}")
    selector = {}
    for label, texts in value.items():
        if not isinstance(label, str) or not _LABEL.fullmatch(label):
            raise ValueError(f"expected names of labels, got {show(label)}")
        values = tuple(texts) if isinstance(texts, list) else (texts,)
        if not 0 < len(values) <= _MOST_VALUES or not all(
            isinstance(text, str) and _LABEL_VALUE.fullmatch(text) for text in values
        ):
            raise ValueError(
                f"{label}: expected a value or a list of at most {_MOST_VALUES}, of letters, digits and _ . : / -,"
                f" got {show(texts)}"
            )
        selector[label] = values
    return tuple(sorted(selector.items()))


def _parse_url(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("Expected `str`")
    return check_url(value)


if TYPE_CHECKING:
    _Url = str
    _Window = int
    _Selector = Selector
else:
    _Url = setting_type(str, _parse_url)
    _Window = setting_type(int, parse_window)
    _Selector = setting_type(tuple, _parse_selector)


class PrometheusSettings(Settings, frozen=True, kw_only=True):
    """``window``: how much of the past counts, in seconds. ``query`` is PromQL that returns one number for each
    ``namespace``, ``service`` and ``zone``, in which ``$window`` is replaced; it wins over the preset.

    ``timeout``: seconds for the whole answer. The file of the token is read for each question: tokens change.
    """

    url: Annotated[_Url, Meta(description=URL_EXPECTED)] = ""
    """It may hold a password. Empty in a file that leaves the address to an option."""
    window: _Window = 3600
    preset: Preset = "zoneward-meter"
    query: _Query | None = None
    selector: _Selector = DEFAULT_SELECTOR
    """Which series of Zoneward's metrics are trusted; it has no effect on ``query``."""
    timeout: Annotated[Seconds, bounds("a duration from 1s to 5m", ge=1, le=300)] = 30.0
    token_file: FileName | None = None
    ca_file: FileName | None = None

    def __repr__(self) -> str:
        return f"PrometheusSettings({self})"

    @property
    def server(self) -> str:
        """The address for people."""
        return without_password(self.url)

    @property
    def matchers(self) -> str:
        """The selector in PromQL, without the braces."""
        return ",".join(f"{label}=~{_one_of(values)}" for label, values in self.selector)

    def demand_query(self, *, without_nodes: Collection[str] | None = None) -> str:
        """The PromQL for demand. ``without_nodes``: names whose programs do not count, of those that a Node can have;
        None: the programs of all nodes count. It has no effect on ``query``."""
        return (self.query or self._preset_query(without_nodes)).replace(WINDOW_VARIABLE, f"{self.window}s")

    @property
    def nodes_query(self) -> str:
        """PromQL: a series for each ``node`` that the preset's programs name."""
        info = own_labels(f"last_over_time({_INFOS[self.preset]}{{{self.matchers}}}[{self.window}s])", "node")
        return f"group by (node) ({info})"

    def _preset_query(self, without_nodes: Collection[str] | None) -> str:
        """The increase of a counter by namespace, service and the zone where connections started.

        Jobs that scrape the same program give it the same ``instance``: the largest count of one of them counts. In one
        job, Pods that followed each other are summed.
        """
        metric, more = _COUNTERS[self.preset]
        increase = f"increase({metric}{{{self.matchers},{more}}}[{WINDOW_VARIABLE}])"
        programs = " or ".join(
            f"last_over_time({_INFOS[self.preset]}{{{self.matchers}{nodes}}}[{WINDOW_VARIABLE}])"
            for nodes in _other_nodes(without_nodes)
        )
        query = own_labels(f"{increase} and on ({SCRAPED_FROM}) ({programs})", "namespace", "service")
        labels = "instance,namespace,service,zone"
        of_job = f'sum by (job,{labels}) (label_replace({query},"zone","$1","from_zone","(.*)"))'
        return f"sum by (namespace,service,zone) (max by ({labels}) ({of_job}))"

    def __str__(self) -> str:
        of_what = "a query of the configuration" if self.query else self.preset
        return f"{self.server} ({of_what}, the last {window_text(self.window)})"
