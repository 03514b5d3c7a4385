"""Elements in the kernel's format are read as they were written, and an interrupted dump is an error."""

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zoneward.netlink.messages import DONE, FAMILIES, HEADER, Family, attributes, error_number
from zoneward.netlink.nftables import (
    DumpInterrupted,
    ElementReader,
    ElementWriter,
    FieldTypes,
    parse_field_types,
    split_elements,
)
from zoneward.proxy.kernel.table_writer import encode_transaction
from zoneward.proxy.ruleset.base_rules import base_sets
from zoneward.proxy.ruleset.ruleset import RulesetChanges

_WORDS = {
    "protocol": st.sampled_from(["tcp", "udp", "sctp"]),
    "port": st.integers(0, 65535).map(str),
    "number": st.integers(0, 2**32 - 1).map(str),
    "verdict": st.sampled_from(["drop", "goto c-1", "goto guard-ABC-shop/web"]),
}


def of(family: Family, parts: FieldTypes) -> st.SearchStrategy[str]:
    addresses = {"address": st.ip_addresses(v=4 if family == "ip" else 6).map(str)}
    return st.tuples(*((_WORDS | addresses)[part] for part in parts)).map(" . ".join)


@settings(max_examples=50)
@given(data=st.data(), family=st.sampled_from(FAMILIES))
def test_elements_of_each_set_are_read_as_they_were_written(data: st.DataObject, family: Family) -> None:
    known = {
        name: field_types
        for name, declaration in base_sets(family).items()
        if (field_types := parse_field_types(declaration.spec))
    }
    parts = known[data.draw(st.sampled_from(sorted(known)))]
    elements = data.draw(st.dictionaries(of(family, parts[0]), of(family, parts[1]), max_size=5))
    writer, reader = ElementWriter(family, parts), ElementReader(family, parts)
    written = [element for key, value in elements.items() for _, element in attributes(writer.write(key, value))]
    assert reader.read(written) == elements


def test_a_set_that_the_kernel_fills_is_not_read() -> None:
    assert parse_field_types("type ipv4_addr; flags dynamic,timeout; timeout 60s") is None


def test_elements_that_changed_during_a_dump_interrupt_it() -> None:
    with pytest.raises(DumpInterrupted):
        split_elements(HEADER.pack(20, DONE, 0x10, 1, 0) + struct.pack("=i", 0))


def test_the_error_in_an_answer_is_found_wherever_it_is() -> None:
    done, wrong = (HEADER.pack(20, 2, 0, 1, 0) + struct.pack("=i", code) for code in (0, -17))
    assert error_number(done) == 0
    assert error_number(done + wrong + done) == 17


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param(RulesetChanges(family="ip", table="t"), id="nothing"),
        pytest.param(RulesetChanges(family="ip", table="t", deleted_chains=frozenset({"c-1"})), id="chains"),
        pytest.param(
            RulesetChanges(family="ip", table="t", added_elements={"cluster-ips": {"nonsense": ""}}), id="no address"
        ),
        pytest.param(RulesetChanges(family="ip", table="t", added_elements={"unknown": {"10.0.0.1": ""}}), id="no set"),
    ],
)
def test_what_is_not_of_elements_alone_is_left_to_nft(changes: RulesetChanges) -> None:
    assert encode_transaction(changes, base_sets("ip")) is None
