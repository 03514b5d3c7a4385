"""Numbers in requests are what Go's ``strconv`` takes for one."""

import pytest
from tests.builders.objects import a_lease
from tests.contract.api import Api, path_of

SYNTAX, RANGE = "invalid syntax", "value out of range"
WRONG = {
    "1_0": SYNTAX,
    " 5": SYNTAX,
    "٣": SYNTAX,
    "²": SYNTAX,
    "-": SYNTAX,
    "1e3": SYNTAX,
    "0x1": SYNTAX,
    "9" * 20: RANGE,
    "9" * 500: RANGE,
}


@pytest.mark.parametrize("number", WRONG)
@pytest.mark.parametrize("option", ["limit", "timeoutSeconds"])
def test_an_option_of_a_list_is_a_number(api: Api, namespace: str, option: str, number: str) -> None:
    answer = api.send("GET", f"/api/v1/namespaces/{namespace}/pods", query={option: number})
    message = f'strconv.ParseInt: parsing "{number}": {WRONG[number]}'
    assert answer.refusal == (400, "BadRequest", message)


@pytest.mark.parametrize("number", WRONG)
def test_a_grace_period_is_a_number(api: Api, namespace: str, number: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/pods/nobody"
    answer = api.send("DELETE", path, query={"gracePeriodSeconds": number})
    message = f'strconv.ParseInt: parsing "{number}": {WRONG[number]}'
    assert answer.refusal == (400, "BadRequest", message)


@pytest.mark.parametrize("number", [*WRONG, "+5", "-5"])
def test_the_version_of_a_list_is_a_number_without_a_sign(api: Api, namespace: str, number: str) -> None:
    answer = api.send("GET", f"/api/v1/namespaces/{namespace}/pods", query={"resourceVersion": number})
    problem = f'strconv.ParseUint: parsing "{number}": {WRONG.get(number, SYNTAX)}'
    message = f'invalid resource version: resourceVersion: Invalid value: "{number}": {problem}'
    assert answer.refusal == (400, "BadRequest", message)


@pytest.mark.parametrize("number", [*WRONG, "+5", "-5", "new"])
@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_the_version_of_an_object_is_one_too(api: Api, namespace: str, method: str, number: str) -> None:
    lease = api.create(a_lease("cart", namespace=namespace))
    lease["metadata"]["resourceVersion"] = number
    content_type = "application/merge-patch+json" if method == "PATCH" else "application/json"
    answer = api.send(method, path_of(lease), lease, content_type=content_type)
    message = f'strconv.ParseUint: parsing "{number}": {WRONG.get(number, SYNTAX)}'
    assert answer.refusal == (500, "", message)
    assert api.read(lease)["metadata"]["resourceVersion"] != number
