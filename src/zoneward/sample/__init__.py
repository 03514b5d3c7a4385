"""A sample cluster that comes with the package: an online shop in three zones, for a first look and for tests; and a
play in which a part of that shop lives for a while.
"""

from importlib.resources import files
from importlib.resources.abc import Traversable


def cluster() -> Traversable:
    """The sample cluster, a YAML file of many documents: Namespaces, Nodes, Services, one EndpointSlice and Pods.

    ``cluster().read_bytes()`` gives its text, ``importlib.resources.as_file(cluster())`` a path on disk, also where the
    package is installed as an archive. ``examples/sample/make.py`` makes the file.
    """
    return files(__name__) / "cluster.yaml"


def measured() -> Traversable:
    """What a meter on every node of the sample cluster might count in a day: a MeasuredTraffic document on each line.

    ``examples/sample/measure.py`` makes the file.
    """
    return files(__name__) / "measured.jsonl"


def play() -> Traversable:
    """What ``zoneward demo`` plays: a YAML file as ``zoneward sandbox --play`` takes it."""
    return files(__name__) / "play.yaml"
