"""Numbers in requests are plain digits of at most 64 bits."""

import pytest
from tests.contract.api import Api

WRONG = ("1_0", " 5", "٣", "²", "-", "1e3", "0x1", "9" * 20, "9" * 500)


@pytest.mark.parametrize("number", WRONG)
@pytest.mark.parametrize(
    ("method", "name", "option"),
    [
        ("GET", "", "limit"),
        ("GET", "", "timeoutSeconds"),
        ("GET", "", "resourceVersion"),
        ("DELETE", "/nobody", "gracePeriodSeconds"),
    ],
)
def test_an_option_that_is_no_number_is_refused(
    api: Api, namespace: str, method: str, name: str, option: str, number: str
) -> None:
    answer = api.send(method, f"/api/v1/namespaces/{namespace}/pods{name}", query={option: number})
    assert answer.refusal[:2] == (400, "BadRequest")
