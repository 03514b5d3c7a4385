"""The picture of flows between zones keeps all of the traffic, and every line at its box."""

import re

from hypothesis import given
from hypothesis import strategies as st
from tests.properties.random_clusters import examples

from zoneward.report.flow_picture import flow_picture, largest_flows

ZONES = st.sampled_from([f"eu-{letter}" for letter in "abcdefgh"])
FLOWS = st.dictionaries(st.tuples(ZONES, ZONES), st.floats(0, 1e18), max_size=40)


@given(FLOWS, st.integers(2, 9))
@examples(30)
def test_many_zones_are_taken_together_and_nothing_is_lost(flows: dict[tuple[str, str], float], most: int) -> None:
    result = largest_flows(flows, most)
    assert len({zone for pair in result for zone in pair}) <= most
    whole = sum(flows.values())
    assert abs(sum(result.values()) - whole) <= 1e-9 * whole
    if len({zone for pair in flows for zone in pair}) <= most:
        assert result == {pair: amount for pair, amount in flows.items() if amount}


def test_lines_fit_their_boxes_and_those_that_stay_are_below() -> None:
    flows = {("a", "a"): 60.0, ("a", "b"): 40.0, ("b", "b"): 10.0, ("c", "a"): 0.001}
    html = flow_picture(flows, described="described", total="110 GB").html
    widths = [float(width) for width in re.findall(r'stroke-width="([0-9.]+)"', html)]
    assert sum(widths) <= 60 * 1.2
    assert re.findall(r'<path [^>]*class="(\w+)"', html) == ["stays", "stays", "z0", "z2"]
    assert "91% of traffic" in html
    assert 'aria-label="described"' in html
