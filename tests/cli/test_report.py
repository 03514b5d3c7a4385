"""``zoneward report``: traffic between zones and its price, now and with each setting."""

import csv
import json
from base64 import b64encode
from hashlib import sha256
from io import StringIO
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree

import pytest
from tests.builders.new_user_clusters import write_list
from tests.cli.live_cluster import Cluster
from tests.cli.running import MEASURED, SAMPLE, Commands, configuration_file, sample_objects, sample_slices

from zoneward.report import traffic_table

EXAMPLES: Final = Path(__file__).parents[2] / "examples"
CONNECTIONS: Final = EXAMPLES / "measured.jsonl"
FEW: Final = ("shop/search", "shop/inventory", "payments/api", "--only", "none,PreferSameZone,Balanced,local")
PRICE: Final = ("--price-per-gb", "0.01USD")


@pytest.fixture(scope="module")
def slices(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the plan of the sample cluster writes."""
    file = tmp_path_factory.mktemp("slices") / "slices.json"
    file.write_bytes(sample_slices())
    return file


def document(zoneward: Commands, *arguments: str | Path, measured: Path = MEASURED) -> dict[str, Any]:
    return dict(zoneward.json("report", "-q", "-f", SAMPLE, "--measured", measured, *arguments))


def test_json_has_now_each_setting_and_what_it_saves(zoneward: Commands, slices: Path) -> None:
    report = document(zoneward, "-f", slices, *FEW, *PRICE)
    assert (report["currency"], report["charge"], report["measured"]["measuredNodes"]) == ("USD", "one", 22)
    assert [service["service"] for service in report["services"]] == ["inventory", "search", "api"]
    inventory = report["services"][0]
    now = inventory["now"]["crossing"]
    assert now["money"] == pytest.approx(now["gb"] / 100, abs=1e-5)
    assert now["gb"] + sum(flow["gb"] for flow in report["flows"] if flow["fromZone"] == flow["toZone"]) > 0
    same = next(setting for setting in inventory["settings"] if setting["approach"] == "PreferSameZone")
    assert same["crossing"]["gb"] == 0
    assert same["saved"]["money"] == pytest.approx(now["money"])
    assert same["overloads"]
    assert same["maxOverload"] > 0.3
    assert inventory["best"] == "Balanced"
    assert report["total"]["now"]["gb"] == pytest.approx(
        sum(service["now"]["crossing"]["gb"] for service in report["services"]), abs=1e-4
    )
    assert report["total"]["best"]["saved"]["money"] == pytest.approx(
        sum(
            setting["saved"]["money"]
            for service in report["services"]
            for setting in service["settings"]
            if setting["approach"] == service["best"]
        ),
        abs=1e-4,
    )
    both = document(zoneward, "-f", slices, *FEW, *PRICE, "--charge", "both")
    assert both["total"]["now"]["money"] == pytest.approx(2 * report["total"]["now"]["money"])


def test_a_node_that_ignores_hints_is_named(zoneward: Commands, slices: Path) -> None:
    report = document(zoneward, "-f", slices, *FEW)
    (node,) = report["deviatingNodes"]
    assert (node["node"], node["zone"]) == ("worker-b2", "eu-central-1b")
    assert {service["service"] for service in node["services"]} == {"search", "api"}
    search = next(service for service in report["services"] if service["service"] == "search")
    assert [node["node"] for node in search["nodes"] if node["deviates"]] == ["worker-b2"]
    assert search["now"]["inZone"] < search["now"]["predictedInZone"]
    lines = zoneward("report", "-q", "-f", SAMPLE, "-f", slices, "--measured", MEASURED, *FEW).out
    assert "worker-b2 does not do what is predicted: payments/api 34% in its zone, predicted 100%; shop/search" in lines
    assert "not so on 1 node" in lines


def test_one_node_that_is_not_named_is_counted(
    zoneward: Commands, slices: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(traffic_table, "_MOST_NODES", 0)
    text = zoneward("report", "-q", "-f", SAMPLE, "-f", slices, "--measured", MEASURED, *FEW).out
    assert "So does 1 more node: -o json names all." in text


def test_prices_of_pairs_come_from_the_configuration(zoneward: Commands, tmp_path: Path, slices: Path) -> None:
    regions = "{eu-central-1: {eu-central-1: 0USD}}"
    file = configuration_file(tmp_path, f"prices: {{perGB: 0.01USD, charge: both, regions: {regions}}}")
    report = document(zoneward, "-f", slices, *FEW, "--config", file)
    assert (report["charge"], report["total"]["now"]["money"]) == ("both", 0)
    assert report["total"]["now"]["gb"] > 0
    for prices, expected in (
        ("{regions: {eu-central-1: {us: 1USD}}}", "prices.regions: expected regions of Nodes (eu-central-1), got 'us'"),
        ("{perGB: 0.01}", "configuration.yaml: prices.perGB: expected a price"),
    ):
        configuration_file(tmp_path, f"prices: {prices}")
        assert expected in zoneward.refused("report", "-f", SAMPLE, "--measured", MEASURED, "--config", file)


def test_a_zone_without_a_ready_node_keeps_its_region(zoneward: Commands, tmp_path: Path) -> None:
    file = configuration_file(tmp_path, "prices: {perGB: 1USD, regions: {eu-central-1: {eu-central-1: 0USD}}}")
    objects = [
        item | {"status": {}} if item["kind"] == "Node" and "worker-b" in item["metadata"]["name"] else item
        for item in sample_objects()
    ]
    cluster = write_list(objects, tmp_path / "cluster.json")
    measured = ("-q", "-f", cluster, "--measured", MEASURED, "--config", file)
    total = zoneward.json("report", *measured)["total"]["now"]
    assert (total["gb"] > 0, total["money"]) == (True, 0)
    assert zoneward.json("advise", *measured)["summary"]["crossing"] == 0


AUTO: Final = ("shop/search", "--only", "Auto,Balanced")


def settings_of(report: dict[str, Any]) -> dict[str, Any]:
    (service,) = report["services"]
    return {setting["approach"]: setting for setting in service["settings"]}


@pytest.fixture
def far(tmp_path: Path) -> Path:
    """Documents by which most connections to shop/search start in one zone."""
    file = tmp_path / "far.jsonl"
    lines = [json.loads(line) for line in MEASURED.read_bytes().splitlines()]
    for line in lines:
        factor = 20 if line["zone"] == "eu-central-1c" else 1
        line["services"] = [
            {**service, "zones": {zone: amount * factor for zone, amount in service["zones"].items()}}
            for service in line["services"]
            if service["service"] == "search"
        ]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


def test_the_built_in_controller_decides_by_cpu_and_zonewards_by_what_was_measured(
    zoneward: Commands, slices: Path, far: Path
) -> None:
    """The slices are Zoneward's in one case, and in the other nobody's."""
    built_in, own = (settings_of(document(zoneward, *more, *AUTO, measured=far)) for more in ((), ("-f", slices)))
    assert built_in["ProportionalZoneCPU"]["active"], "by CPU no endpoint is overloaded"
    assert built_in["ProportionalZoneCPU"]["overloads"], "by the traffic that was measured some are"
    assert not own["ProportionalZoneCPU"]["overloads"]
    assert built_in["Balanced"] == {**own["Balanced"], "needs": "controller"}


def test_the_demand_that_is_chosen_decides_and_the_measured_one_weighs(zoneward: Commands, far: Path) -> None:
    measured, cpu, even = (
        document(zoneward, *AUTO, *more, measured=far) for more in ((), ("--demand", "cpu"), ("--demand", "even"))
    )
    assert measured["total"]["now"] == cpu["total"]["now"] == even["total"]["now"]
    settings = [settings_of(report) for report in (measured, cpu, even)]
    auto = [by_approach["ProportionalZoneCPU"] for by_approach in settings]
    assert auto[0] == auto[1] == auto[2], "the built-in controller knows no demand but CPU"
    balanced = [by_approach["Balanced"] for by_approach in settings]
    assert balanced[0]["maxOverload"] < min(balanced[1]["maxOverload"], balanced[2]["maxOverload"])
    by_cpu, evenly = (document(zoneward, *FEW, "--demand", demand)["services"] for demand in ("cpu", "even"))
    assert by_cpu != evenly


def test_reported_as_kubernetes_decides_auto_is_active(zoneward: Commands) -> None:
    report = document(zoneward, "shop/search", "--compat", "upstream", "--only", "Auto")
    (setting,) = report["services"][0]["settings"]
    assert (setting["approach"], setting["active"]) == ("ProportionalZoneCPU", True)


def test_the_sample_has_measurements_and_a_price(zoneward: Commands) -> None:
    done = zoneward("report", "--sample", "-o", "json")
    assert "zoneward: an example price of 0.01USD a GB (override with --price-per-gb)\n" in done.err
    report = json.loads(done.out)
    assert report == document(zoneward, *PRICE)
    assert report["total"]["now"]["gb"] > 1000
    assert report["total"]["now"]["money"] == pytest.approx(report["total"]["now"]["gb"] / 100, abs=1e-4)
    euros = zoneward("report", "--sample", "--price-per-gb", "0.02EUR", "-o", "json")
    assert json.loads(euros.out)["currency"] == "EUR"
    assert "example price" not in euros.err
    assert zoneward.json("report", "--sample", "--measured", MEASURED)["currency"] is None


def test_documents_are_needed_and_of_this_cluster(zoneward: Commands, tmp_path: Path) -> None:
    assert "Missing option '--measured'" in zoneward("report", "-f", SAMPLE).err
    other = tmp_path / "other.json"
    other.write_bytes(CONNECTIONS.read_bytes().splitlines()[0].replace(b"worker-a1", b"elsewhere"))
    for command in (("report",), ("advise",), ("plan",), ("explain", "shop/cart")):
        assert "expected documents of Nodes of this cluster, got none: elsewhere is no Node of it" in zoneward.refused(
            *command, "-f", SAMPLE, "--measured", other
        )
        said = zoneward(*command, "-f", SAMPLE, "--measured", other, "--measured", MEASURED).err
        assert "zoneward: not counted: 1 measured node not in the cluster: elsewhere\n" in said


def test_without_bytes_there_are_shares_and_no_money(zoneward: Commands) -> None:
    report = document(zoneward, *PRICE, measured=CONNECTIONS)
    assert report["currency"] is None
    assert report["total"]["now"].keys() >= {"gb", "money", "share"}
    assert (report["total"]["now"]["gb"], report["total"]["now"]["money"]) == (None, None)
    assert report["total"]["now"]["share"] == pytest.approx(4402 / 27537, abs=1e-6)
    assert report["measured"]["missingZones"] == ["eu-central-1c"]
    done = zoneward("report", "-f", SAMPLE, "--measured", CONNECTIONS, *PRICE)
    assert "CROSS" in done.out
    assert "34%>3%: now, and with the best setting" in done.out
    assert "12.5>0.00" not in done.out
    assert "Nothing is measured of eu-central-1c" in done.out
    assert "14 Services without measured traffic left out" in done.err


def test_services_that_the_cluster_does_not_have_are_counted_and_left_out(zoneward: Commands, tmp_path: Path) -> None:
    file = tmp_path / "measured.json"
    file.write_bytes(CONNECTIONS.read_bytes().replace(b'"service": "images"', b'"service": "gone"'))
    done = zoneward("report", "-f", SAMPLE, "--measured", file, "-o", "csv")
    assert "1 measured Service not in the input, and left out: shop/gone" in done.err
    assert {row["service"] for row in csv.DictReader(StringIO(done.out))} == {"search"}


def test_csv_has_a_line_for_now_and_one_for_each_setting(zoneward: Commands, slices: Path) -> None:
    arguments = ("report", "-q", "-f", SAMPLE, "-f", slices, "--measured", MEASURED, *FEW, *PRICE)
    rows = list(csv.DictReader(StringIO(zoneward(*arguments, "-o", "csv").out)))
    assert [row["approach"] for row in rows[:5]] == ["now", "none", "Balanced", "PreferSameZone", "local"]
    assert [row["service"] for row in rows[::5]] == ["search", "inventory", "api"]
    inventory = document(zoneward, "-f", slices, *FEW, *PRICE)["services"][0]
    row = rows[5 + 2]
    setting = inventory["settings"][1]
    assert (float(row["savedMoney"]), row["best"], row["currency"]) == (setting["saved"]["money"], "true", "USD")
    top = list(csv.DictReader(StringIO(zoneward(*arguments, "-o", "csv", "--top", "1").out)))
    assert {row["service"] for row in top} == {"inventory"}


def test_the_table_fits_80_columns_with_totals_first(
    zoneward: Commands, slices: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    out = zoneward("report", "-q", "-f", SAMPLE, "-f", slices, "--measured", MEASURED, *FEW, *PRICE, "--top", "2").out
    assert max(map(len, out.splitlines())) <= 80
    lines = out.splitlines()
    assert next(line for line in lines if line.startswith("TOTAL")).split()[1] == "now"
    assert "2 of 3 Services are shown; --top 0 shows all." in lines
    assert "payments/api" not in "\n".join(line for line in lines if not line.startswith("worker-b2"))
    changed = zoneward("report", "-q", "--sample", "--changed").out.splitlines()
    assert "6 of 8 Services are shown." in changed, "--top 0 would not show the others"


def test_the_page_is_well_formed_and_its_script_is_the_only_one_that_may_run(zoneward: Commands, slices: Path) -> None:
    page = zoneward("report", "-q", "-f", SAMPLE, "-f", slices, "--measured", MEASURED, *FEW, *PRICE, "-o", "html").out
    root = ElementTree.fromstring(page)
    (services,) = (table for table in root.iter("table") if table.get("class") == "parts")
    assert "".join(services[1][0][0].itertext()) == "shop/inventory"
    assert len(list(root.iter("script"))) == 1
    (policy,) = (element.get("content", "") for element in root.iter("meta") if element.get("http-equiv"))
    script = next(root.iter("script")).text or ""
    digest = b64encode(sha256(script.encode()).digest()).decode()
    assert policy.endswith(f"; script-src 'sha256-{digest}'")
    assert "worker-b2" in page


def test_what_a_document_says_steers_no_terminal(zoneward: Commands, tmp_path: Path) -> None:
    file = tmp_path / "measured.json"
    hostile = json.dumps("x\x1b[31m\u202e\n=").strip('"').encode()
    text = CONNECTIONS.read_bytes().replace(b"worker-b1", hostile).replace(b'"eu-central-1b"', b'"' + hostile + b'"')
    file.write_bytes(text.replace(b'"service": "images"', b'"service": "' + hostile + b'"'))
    for output in ("table", "csv", "html"):
        done = zoneward("report", "-f", SAMPLE, "--measured", file, "-o", output, "--color", "never")
        assert done.status == 0, done.err
        assert "\x1b" not in done.out
        if output != "html":
            assert all(character.isprintable() for line in (done.out + done.err).split("\n") for character in line)


def test_a_live_cluster_is_reported_as_others_are(zoneward: Commands, cluster: Cluster) -> None:
    assert cluster.kubeconfig
    live = zoneward.json("report", "-A", "-q", "--measured", MEASURED, *PRICE, "--only", "none")
    file = document(zoneward, *PRICE, "--only", "none")
    assert live["total"]["services"] == 8
    assert live["total"]["now"] == file["total"]["now"]


def test_the_example_is_what_its_maker_makes() -> None:
    import importlib.util

    spec = importlib.util.spec_from_file_location("measure", EXAMPLES / "sample" / "measure.py")
    assert spec is not None
    assert spec.loader is not None
    maker = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(maker)
    import msgspec

    made = b"".join(msgspec.json.encode(content) + b"\n" for content in maker.documents())
    assert made == MEASURED.read_bytes()


def test_a_service_is_one_line_unless_details_are_wanted(zoneward: Commands) -> None:
    def rows(*options: str) -> list[str]:
        out = zoneward("report", "-q", "--sample", *options).out
        return [line for line in out.splitlines() if line.startswith(("shop/", "payments/"))]

    table = rows()
    assert len(table) == len({line.split()[0] for line in table}) == 8
    (catalog,) = (line for line in table if line.startswith("shop/catalog"))
    assert catalog.split()[:6] == ["shop/catalog", "PreferSameZone", "156>0.00", "1.56>0.00", "1.56", "0.01"]
    details = rows("--details")
    assert [line.split()[0] for line in details] == [line.split()[0] for line in table]
    assert details[0].split()[1] == "now"
    assert rows("shop/frontend")[0].split()[:2] == ["shop/frontend", "now"]
    assert [line.split()[0] for line in rows("--sort", "name")] == sorted(line.split()[0] for line in table)
    assert rows("--sort", "overload", "--top", "1")[0].split()[0] == "shop/cart"
    saving = [line.split()[0] for line in rows("--changed")]
    assert saving == [line.split()[0] for line in table if line.split()[1] != "-"]
