"""Large snapshots for benchmarks, made once and cached: 50,000 pods of realistic size, 2,000 nodes, 2,000 Services, or
as many as wanted."""

from pathlib import Path

from tests.synthetic_cluster import synthetic_cluster

from zoneward.snapshots.snapshot_writer import write_json, write_yaml

PODS, NODES, SERVICES, SEED = 50_000, 2_000, 2_000, 20_260_601
CACHE = Path(".cache/bench").resolve()


def large_snapshot(form: str, *, pods: int = PODS, nodes: int = NODES, services: int = SERVICES) -> Path:
    """The snapshot as ``json`` or ``yaml``; made on first use, then read from the cache folder."""
    path = CACHE / f"{pods}-{nodes}-{services}-{SEED}.{form}"
    if not path.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(".part")
        objects = synthetic_cluster(seed=SEED, pods=pods, nodes=nodes, services=services)
        with unfinished.open("wb") as stream:
            (write_json if form == "json" else write_yaml)(objects, stream)
        unfinished.rename(path)
    return path
