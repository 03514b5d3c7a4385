"""``zoneward proxy`` without a kernel: rules as text, and mistakes. The rest is in ``e2e/test_proxy_start.py``."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.builders import objects
from tests.builders.new_user_clusters import write_list
from tests.cli.running import Commands, configuration_file

NODE = "worker-a2"
PRINTED = ("proxy", "--node", NODE, "--sample", "--print")


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ("{frobnicate: 1}", ("proxy", "frobnicate")),
        ("{masqueradeBit: many}", ("proxy.masqueradeBit", "many")),
        ("{auditPeriod: 1s}", ("proxy.auditPeriod", "10s")),
        ("{maxServiceEntries: all}", ("proxy.maxServiceEntries", "all")),
        ("{clusterCIDRs: 10.0.0.0/8}", ("proxy.clusterCIDRs", "list")),
    ],
    ids=["unknown", "no-number", "too-short", "no-entries", "no-list"],
)
def test_a_mistake_in_the_configuration_is_one_line_with_the_file(
    zoneward: Commands, tmp_path: Path, section: str, words: tuple[str, ...]
) -> None:
    file = configuration_file(tmp_path, f"proxy: {section}")
    err = zoneward.refused(*PRINTED, "--config", file)
    assert err.startswith(f"zoneward: {file}: ")
    assert [word for word in words if word not in err] == []


def test_flags_win_over_the_configuration(zoneward: Commands, tmp_path: Path) -> None:
    file = configuration_file(tmp_path, "proxy: {clusterCIDRs: [10.244.0.0/16], masqueradeBit: 3}")
    both = zoneward(*PRINTED, "--config", file, "--masquerade-bit", "5")
    assert both.out == zoneward(*PRINTED, "--cluster-cidr", "10.244.0.0/16", "--masquerade-bit", "5").out
    assert both.out != zoneward(*PRINTED, "--config", file).out


def test_without_its_gate_hints_of_traffic_distribution_have_no_effect(zoneward: Commands, tmp_path: Path) -> None:
    """KEP-4444 § Feature Enablement and Rollback, in `proxy --print` and in `route`: the slices still have them."""
    slice_ = objects.a_slice("cart-1", service="cart", addresses=["10.1.0.1", "10.1.0.2"])
    for endpoint, zone in zip(slice_["endpoints"], "ab", strict=True):
        endpoint |= {"zone": zone, "hints": {"forZones": [{"name": zone}]}}
    service = objects.a_service("cart", clusterIP="10.96.0.1", distribution="PreferClose")
    items = [objects.a_node("n1", "a"), service, slice_]
    cluster = write_list(items, tmp_path / "cluster.json")
    gates = configuration_file(tmp_path, "featureGates: {ServiceTrafficDistribution: false}")
    for options, used in (((), 1), (("--config", gates), 2)):
        printed = zoneward("proxy", "--node", "n1", "-f", cluster, "--print", *options)
        assert len(re.findall(r"10\.1\.0\.[12] \. ", printed.out)) == used
        route = ("route", "--node", "n1", "-f", cluster, "--as-is", "--proxy", "zoneward", "-o", "json")
        (port,) = json.loads(zoneward(*route, *options).out)["ports"]
        assert len(port["cluster"]) == used
        assert port["rule"] == ("zone-hints" if used == 1 else "all")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("nft") is None or os.geteuid() != 0, reason="needs nft and root")
@pytest.mark.parametrize(
    "flags",
    [
        (),
        ("--cluster-cidr", "10.244.0.0/16,fd00::/16", "--service-cidr", "10.96.0.0/12,fd00:10:96::/112"),
        ("--pod-interface-prefix", "veth", "--masquerade-all", "--masquerade-bit", "0", "--no-count-connections"),
        ("--nodeport-addresses", "192.0.2.0/24,2001:db8::/32"),
    ],
    ids=["usual", "ranges", "interfaces", "node-ports"],
)
def test_nft_takes_what_is_printed(zoneward: Commands, flags: tuple[str, ...]) -> None:
    """In a separate network namespace, which is deleted with the command."""
    printed = zoneward(*PRINTED, *flags)
    assert printed.status == 0
    command = ["unshare", "--net", "--", "nft", "--check", "--file", "-"]
    checked = subprocess.run(command, input=printed.out, capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")


def test_a_service_that_is_too_large_is_left_out_and_named(zoneward: Commands) -> None:
    service = "shop/frontend is left out: the addresses, source ranges and endpoints of all its ports come to"
    all_ = zoneward(*PRINTED)
    assert all_.err == ""
    result = zoneward(*PRINTED, "--max-service-entries", "4")
    assert result.status == 0
    assert service in result.err
    assert len(result.out) < len(all_.out)


@pytest.mark.parametrize("option", ["--max-namespace-entries", "--max-entries"])
def test_services_beyond_a_budget_are_left_out_and_named(zoneward: Commands, option: str) -> None:
    result = zoneward(*PRINTED, option, "4")
    assert result.status == 0
    assert "is left out: " in result.err
    assert f"expected at most 4 ({option}); older Services come first" in result.err
    assert len(result.out) < len(zoneward(*PRINTED).out)


def test_hostile_values_are_told_and_printed_in_no_rule(zoneward: Commands, tmp_path: Path) -> None:
    injected = "}\nadd table inet X"
    cart = {
        "metadata": {"name": "cart", "namespace": "shop"},
        "spec": {
            "type": "LoadBalancer",
            "clusterIP": "10.96.0.1",
            "externalIPs": ["10.96.0.2", "192.0.2.7"],
            "loadBalancerSourceRanges": [f"10.0.0.0/8 {injected}"],
            "ports": [{"name": "http", "port": 80, "protocol": "TCP"}],
        },
        "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}},
    }
    dns = {
        "metadata": {"name": "dns", "namespace": "system"},
        "spec": {"clusterIP": "10.96.0.2", "ports": [{"port": 53, "protocol": "UDP"}]},
    }
    node = {
        "metadata": {"name": "n1"},
        "status": {"addresses": [{"type": "InternalIP", "address": f"192.168.77.1 {injected}"}]},
    }
    kinds = {"Service": (cart, dns), "Node": (node,)}
    items = [{"apiVersion": "v1", "kind": kind} | object_ for kind, of_kind in kinds.items() for object_ in of_kind]
    file = write_list(items, tmp_path / "cluster.json")
    result = zoneward("proxy", "--node", "n1", "-f", file, "--print")
    assert result.status == 0
    assert "inet" not in result.out.replace("inet_", "")
    assert "192.0.2.7 . tcp . 80" in result.out
    assert "192.0.2.1 " not in result.out
    source_range, *rest = result.err.splitlines()
    assert source_range.startswith(
        r"zoneward: Service shop/cart: source range '10.0.0.0/8 }\nadd table inet X' is no range"
    )
    assert rest == [
        r"zoneward: Node n1: '192.168.77.1 }\nadd table inet X' is no IP address: left out",
        "zoneward: Service shop/cart: it does not get 10.96.0.2 of system/dns",
    ]
