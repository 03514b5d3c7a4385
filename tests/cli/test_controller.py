"""``zoneward controller`` as a process: what it writes and reports, and how it ends."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from prometheus_client.parser import text_string_to_metric_families
from tests.builders.objects import measured_traffic, service_traffic
from tests.cli.a_replica import Replica, a_replica, kubeconfig_of
from tests.cli.live_cluster import configuration
from tests.cli.running import SAMPLE, Commands, configuration_file
from tests.client.calling import transport
from tests.client.serving import access_to, json_status, refused_port, served
from tests.controller.a_controller import Place, fill

from zoneward.cli.controller import with_demand_file
from zoneward.controller.context import FiguresUnavailable
from zoneward.extras import how_to_install
from zoneward.kube import names
from zoneward.routing.configuration import Configuration, DemandSettings
from zoneward.sandbox.server.persistence import load_objects, new_registry
from zoneward.sandbox.server.sandbox_server import SandboxServer

pytestmark = pytest.mark.slow

LEASES = "leases.coordination.k8s.io"


@dataclass
class Site:
    sandbox: Place
    kubeconfig: Path

    @property
    def lease(self) -> Any:
        return next((object_["spec"] for object_ in self.sandbox.objects(LEASES)), {})


@asynccontextmanager
async def a_site(directory: Path, *, sample: bool = False) -> AsyncIterator[Site]:
    registry = new_registry()
    if sample:
        load_objects(registry, [("the sample", SAMPLE.read_bytes())])
    async with SandboxServer(registry) as server, transport(access_to(server.address)) as link:
        site = Site(Place(registry, link), kubeconfig_of(server, directory))
        if not sample:
            fill(site.sandbox)
        yield site


async def elsewhere(*arguments: str) -> str:
    """What another command prints; it is a process, for the sandbox is in this one."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "zoneward", *arguments), stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    assert process.returncode == 0
    return out.decode()


async def idle(replica: Replica) -> None:
    """Until all that was there at first is written."""
    await replica.line("became leader")
    await replica.line("cache synced")
    for _ in range(1000):
        queue = json.loads((await replica.get("/debug/queue"))[1])
        if not sum(queue[state] for state in ("due", "gathering", "failing", "stale", "working")):
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"never idle: {queue}")


# --- what it does and reports -----------------------------------------------------------------------------------------


async def test_the_sample_cluster_gets_all_slices_and_every_page_tells_of_them(tmp_path: Path) -> None:
    async with (
        a_site(tmp_path, sample=True) as site,
        a_replica(site.kubeconfig, "--take-over", "--predictions") as one,
    ):
        await idle(one)
        listens = one.log[0]
        assert (listens["event"], listens["host"], listens["mode"]) == (
            "status server listens",
            "127.0.0.1",
            "take-over",
        )
        options = ("-o", "json", "--proxy", "zoneward", "--kubeconfig", str(site.kubeconfig))
        planned, cart = await asyncio.gather(
            elsewhere("plan", "-A", *options),
            elsewhere("plan", "shop/cart", *options),
        )
        decisions = json.loads(planned)["decisions"]
        assert len(decisions) > 15
        for planned_decision in decisions:
            assert {planned_decision["slices"][what] for what in ("create", "update", "delete")} == {0}, (
                planned_decision["service"]
            )
        status, page = await one.get("/debug/decisions/shop/cart")
        # What slices do now is for those who ask what would change.
        (expected,) = json.loads(cart)["decisions"]
        assert (status, json.loads(page)["decisions"]) == (200, [expected | {"now": None}])
        assert (await one.get("/debug/decisions/shop/mail"))[0] == 404
        assert await one.get("/healthz") == (200, "ok")
        assert await one.get("/readyz") == (200, "ok")
        metrics = {family.name: family for family in text_string_to_metric_families((await one.get("/metrics"))[1])}
        assert metrics["zoneward_controller_leader"].samples[0].value == 1
        unchanged = sum(decision["slices"]["unchanged"] for decision in decisions)
        assert metrics["endpoint_slice_controller_num_endpoint_slices"].samples[0].value == unchanged
        assert "zoneward_controller_service_in_zone_traffic" in metrics
        reporters = {object_["reportingController"] for object_ in site.sandbox.objects("events.events.k8s.io")}
        assert reporters <= {"zoneward.dev/endpointslice-controller"}


# --- how it ends ------------------------------------------------------------------------------------------------------


async def test_a_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    async with a_site(tmp_path) as site, a_replica(site.kubeconfig) as one:
        await one.line("became leader")
        # Both arrive before it can have ended.
        os.kill(one.process.pid, signal.SIGSTOP)
        one.end()
        one.end(signal.SIGINT)
        os.kill(one.process.pid, signal.SIGCONT)
        assert await one.ended() in (128 + signal.SIGINT, 128 + signal.SIGTERM)
        assert one.log[-1]["event"] == "exiting immediately"


async def test_a_server_that_is_away_is_waited_for_and_sigterm_ends_the_wait(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig.yaml"
    kubeconfig.write_text(json.dumps(configuration(f"http://127.0.0.1:{refused_port()}")))
    async with a_replica(kubeconfig) as one:
        line = await one.line("a list or watch broke off")
        assert "the API server cannot be reached" in line["error"]
        assert await one.get("/healthz") == (200, "ok")
        status, body = await one.get("/readyz")
        assert status == 503
        assert body.startswith(
            "[-]cache failed: the cluster has not been listed yet\n[+]watches ok\n[+]leader election ok\n"
        )
        one.end()
        assert await one.ended() == 0


@pytest.mark.parametrize("arguments", [("--take-over",), ("--take-over", "--no-leader-elect")], ids=["lease", "alone"])
async def test_without_a_right_it_ends_with_a_line_that_names_verb_and_resource(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    async def refuse(_request: web.BaseRequest) -> web.Response:
        return json_status(403, "Forbidden", "")

    async with served(refuse) as server:
        kubeconfig = tmp_path / "kubeconfig.yaml"
        kubeconfig.write_text(json.dumps(configuration(server.url)))
        async with a_replica(kubeconfig, *arguments) as one:
            assert await one.ended() == 1
            line = one.lines("the controller ends: the server refuses it")[0]
            assert line["level"] == "error"
            assert "you may not " in line["error"]
            assert 'verbs: ["' in line["error"]


# --- several replicas -------------------------------------------------------------------------------------------------


async def test_a_port_that_is_taken_is_one_line_after_those_of_the_log(tmp_path: Path) -> None:
    async with a_site(tmp_path) as site, served(_nothing) as server:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "zoneward", "controller", "--take-over"),
            *("--kubeconfig", str(site.kubeconfig), "--listen", f"127.0.0.1:{server.port}"),
            stderr=asyncio.subprocess.PIPE,
        )
        _, stderr = await process.communicate()
        assert process.returncode == 2
        assert stderr.decode().startswith(
            f"zoneward: --listen: 127.0.0.1:{server.port}: expected an address that is free, got: "
        )
        assert not site.lease


async def _nothing(_request: web.BaseRequest) -> web.Response:
    return web.Response()


@pytest.mark.parametrize("command", ["controller --take-over", "sandbox --with-builtin-controller"])
def test_without_the_extra_one_line_says_what_to_install(command: str) -> None:
    program = (
        "import sys; sys.modules['structlog'] = None; from zoneward.cli.main import run;"
        f" sys.exit(run({command.split()}))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"zoneward: zoneward {command.removesuffix(' --take-over')}: expected the libraries for it, install them with:"
        f" {how_to_install('controller')} (no structlog found)\n"
    )


# --- the configuration file -------------------------------------------------------------------------------------------


async def test_the_file_sets_what_flags_set_and_flags_win(tmp_path: Path) -> None:
    file = configuration_file(
        tmp_path, "controller: {mode: only-marked, listen: '127.0.0.1:1', leaderElection: {leaderElect: false}}"
    )
    async with a_site(tmp_path) as site:
        async with a_replica(site.kubeconfig, "--config", str(file)) as one:
            # The flag of `a_replica` wins, or port 1 would be served.
            assert (await one.line("status server listens"))["mode"] == "only-marked"
            await one.line("cache synced")
            assert not site.lease
        async with a_replica(site.kubeconfig, "--config", str(file), "--take-over", "--leader-elect") as other:
            assert (await other.line("status server listens"))["mode"] == "take-over"
            await other.line("became leader")
            assert site.lease["holderIdentity"]


@pytest.mark.parametrize("command", ["adopt", "release"])
def test_a_label_in_the_file_that_does_not_go_with_a_command_is_one_line(
    zoneward: Commands, tmp_path: Path, command: str
) -> None:
    file = configuration_file(tmp_path, "controller: {mode: take-over, keepBuiltInLabel: true}")
    assert zoneward.refused(command, "shop/cart", "--config", file) == (
        f"zoneward: {file}: controller.keepBuiltInLabel: expected false for `zoneward {command}`, got true:"
        " the labels must show which slices are Zoneward's\n"
    )


def test_a_file_of_demand_that_is_not_there_is_one_line(zoneward: Commands, tmp_path: Path) -> None:
    file = configuration_file(tmp_path, "demand: {source: file, file: d.csv}")
    assert zoneward.refused("controller", "--take-over", "--config", file).startswith(
        f"zoneward: {tmp_path / 'd.csv'}: "
    )


async def test_a_file_of_figures_is_read_again_each_time_and_small_amounts_count(tmp_path: Path) -> None:
    file, head = tmp_path / "d.csv", "namespace,service,zone,amount\n"
    file.write_text(head + "shop,cart,a,0.7\nshop,cart,b,0.3\n")
    used, figures = with_demand_file(Configuration(demand=DemandSettings(source="file", file=str(file))))
    assert used.demand.min_traffic == 0
    assert figures is not None
    assert (await figures.read([])).amounts == {("shop", "cart"): {"a": 0.7, "b": 0.3}}
    file.write_text(head + "shop,cart,b,5\n")
    assert (await figures.read([])).amounts == {("shop", "cart"): {"b": 5.0}}
    for text, problem in (("zone,part\na,1\n", "parts of zones"), (head + "shop,cart,a,many\n", "many")):
        file.write_text(text)
        with pytest.raises(FiguresUnavailable, match=problem):
            await figures.read([])
    file.unlink()
    with pytest.raises(FiguresUnavailable, match=r"d\.csv"):
        await figures.read([])


async def test_documents_of_nodes_that_are_gone_count_for_nothing(tmp_path: Path) -> None:
    file = tmp_path / "m.json"
    documents = [
        measured_traffic(node, zone, service_traffic("cart", {"a": 5})) for node, zone in (("n1", "a"), ("n2", "b"))
    ]
    file.write_text("\n".join(map(json.dumps, documents)))
    _, figures = with_demand_file(Configuration(demand=DemandSettings(source="file", file=str(file))))
    assert figures is not None
    assert (await figures.read(["n1", "n2"])).amounts == {("shop", "cart"): {"a": 5.0, "b": 5.0}}
    assert (await figures.read(["n2", "n3"])).amounts == {("shop", "cart"): {"b": 5.0}}
    with pytest.raises(FiguresUnavailable, match="n1 is no Node of it"):
        await figures.read(["n3"])


def test_a_file_with_parts_of_zones_is_what_the_configuration_could_say(tmp_path: Path) -> None:
    file = tmp_path / "d.csv"
    file.write_text("zone,part\na,3\nb,1\n")
    asked = Configuration(demand=DemandSettings(source="file", file=str(file)))
    used, figures = with_demand_file(asked)
    assert figures is None
    assert used.demand.zones == (("a", Fraction(3)), ("b", Fraction(1)))
    assert not used.demand.has_figures


def test_plan_shows_the_label_that_the_controller_would_write(zoneward: Commands, tmp_path: Path) -> None:
    file = configuration_file(tmp_path, "controller: {mode: take-over, keepBuiltInLabel: true}")
    upstream = tmp_path / "slices.yaml"
    built_in = zoneward("plan", "--sample", "-q", "-o", "yaml", "--compat=upstream", "payments/ledger").out
    upstream.write_text(SAMPLE.read_text() + "---\n" + built_in)
    keeping = zoneward("plan", "-f", upstream, "-q", "--config", file, "payments/ledger")
    assert "replaced" not in keeping.out
    assert " =1 " in keeping.out
    replaced = zoneward("plan", "-f", upstream, "-q", "--with", "controller", "payments/ledger").out
    assert "1 slice of the built-in controller would be replaced" in replaced
    shown = zoneward("plan", "-f", upstream, "-q", "-o", "yaml", "--config", file, "payments/ledger").out
    assert shown.startswith("# EndpointSlices with the label of the built-in controller; where it runs, it changes")
    assert f"{names.MANAGED_BY_LABEL}: {names.BUILT_IN_MANAGER}" in shown
    ours = zoneward("plan", "--sample", "-q", "-o", "yaml", "payments/ledger").out
    upstream.write_text(SAMPLE.read_text() + "---\n" + ours)
    switched = zoneward("plan", "-f", upstream, "-q", "--config", file, "payments/ledger").out
    assert "1 slice with Zoneward's own label would be replaced, counted as deleted." in switched
