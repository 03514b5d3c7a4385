"""The kernel in memory does what the real one does: `e2e/test_proxy_kernel.py` has the same cases."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties.random_clusters import examples
from tests.proxy.drawn_services import changes
from tests.proxy.kernel.fake_kernel import FakeKernel
from tests.proxy.kernel.kernel_cases import BATCHES, CASES, Batch, Case
from tests.proxy.kernel.kernel_checks import check, check_batch, check_changes, check_what_is_not_there

from zoneward.netlink.messages import Family


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_a_transaction_does_what_it_says_or_nothing(case: Case) -> None:
    await check(FakeKernel(), case)


@pytest.mark.parametrize("case", BATCHES, ids=lambda case: case.name)
async def test_elements_in_the_kernels_own_words_come_and_go_or_none_of_them(case: Batch) -> None:
    await check_batch(FakeKernel(), case)


async def test_what_is_not_there_is_told_by_its_number() -> None:
    await check_what_is_not_there(FakeKernel())


@pytest.mark.parametrize("family", ["ip", "ip6"])
@examples(20)
@given(data=st.data())
def test_changes_in_transactions_of_some_come_to_a_fresh_load(family: Family, data: st.DataObject) -> None:
    steps = data.draw(changes(family))
    asyncio.run(check_changes(FakeKernel(), family, steps, at_once=data.draw(st.integers(1, 4))))
