"""Our conditions in a Service's status: found, compared without their times, and patched without touching others."""

from msgspec.structs import replace
from tests.builders.structs import a_service

from zoneward.controller.status.status_writer import (
    are_equal,
    own_conditions,
    status_patch,
    with_own_conditions,
    with_transition_times,
)
from zoneward.kube.names import ACCEPTED_CONDITION, HONORED_CONDITION, PROGRAMMED_CONDITION
from zoneward.kube.objects import Condition, LoadBalancerStatus, Service, ServiceStatus

OTHER = Condition(type="their.org/Thing", status="True")
ACCEPTED = Condition(type=ACCEPTED_CONDITION, status="True", reason="Accepted", message="")
OFF = Condition(type=PROGRAMMED_CONDITION, status="False", reason="OneZone", message="Hints/Auto: 1 zone")
EARLIER, LATER = "2026-11-21T08:00:00Z", "2026-11-21T09:00:00Z"


def test_ours_are_found_among_those_of_others_and_replaced_without_touching_them() -> None:
    service = a_service(status=ServiceStatus(conditions=(OTHER, ACCEPTED)))
    assert own_conditions(service) == (ACCEPTED,)
    assert with_own_conditions(service, (OFF,)) == a_service(status=ServiceStatus(conditions=(OTHER, OFF)))
    assert own_conditions(Service()) == ()
    bare = Service(status=ServiceStatus(load_balancer=LoadBalancerStatus()))
    changed = with_own_conditions(bare, (OFF,)).status
    assert changed == ServiceStatus(load_balancer=LoadBalancerStatus(), conditions=(OFF,))


def test_neither_times_nor_the_order_make_a_difference() -> None:
    assert are_equal((OFF, ACCEPTED), (ACCEPTED, replace(OFF, last_transition_time=EARLIER)))
    assert not are_equal((OFF,), (OFF, ACCEPTED))
    for change in ({"status": "True"}, {"reason": "Overload"}, {"message": "other"}):
        assert not are_equal((OFF,), (replace(OFF, **change),))


def test_the_time_changes_with_the_status_and_with_nothing_else() -> None:
    before = (replace(OFF, last_transition_time=EARLIER), ACCEPTED)
    on = replace(OFF, status="True", reason="Enabled")
    for wanted, since in ((replace(OFF, reason="Overload"), EARLIER), (on, LATER), (ACCEPTED, LATER)):
        assert with_transition_times((wanted,), before=before, now=LATER) == (
            replace(wanted, last_transition_time=since),
        )


def test_a_patch_has_all_that_is_wanted_and_takes_away_the_rest_of_ours() -> None:
    accepted = replace(ACCEPTED, last_transition_time=EARLIER)
    assert status_patch("u-1", (accepted,)) == {
        "metadata": {"uid": "u-1"},
        "status": {
            "conditions": [
                {
                    "type": ACCEPTED_CONDITION,
                    "status": "True",
                    "lastTransitionTime": EARLIER,
                    "reason": "Accepted",
                    "message": "",
                },
                {"$patch": "delete", "type": PROGRAMMED_CONDITION},
                {"$patch": "delete", "type": HONORED_CONDITION},
            ]
        },
    }
