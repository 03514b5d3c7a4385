"""Objects on their way through the rules, as the registry takes them there, and words that many refusals have."""

from collections.abc import Iterable
from copy import deepcopy
from datetime import UTC, datetime
from typing import Any, Final

from zoneward.kube.validation import FieldError
from zoneward.sandbox.server.kinds import Object, Rules

NAME_PART: Final = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
VALUE: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
SUBDOMAIN: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
LABEL: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
"""As a v1.36.3 server wrote them."""


class Alone:
    """The rules of these kinds ask for no other objects."""

    now = datetime(2026, 1, 1, tzinfo=UTC)

    def find(self, plural: str, namespace: str, name: str) -> Object | None:
        raise AssertionError(f"asked for {plural} {namespace}/{name}")


def created(rules: Rules, thing: Object) -> Object:
    """As it is stored."""
    new = deepcopy(thing)
    rules.default(new)
    rules.prepare_create(new, Alone())
    return new


def refused(rules: Rules, thing: Object) -> list[str]:
    """Why it cannot be created."""
    new = created(rules, thing)
    return told([*rules.metadata_errors(new), *rules.validate_create(new)])


def updated(rules: Rules, old: Object, *, status: bool = False, **changes: Any) -> Object:
    """``old`` with other top-level fields, as it is stored; they are merged into metadata."""
    before = deepcopy(old)
    new = deepcopy(old)
    for name, value in changes.items():
        new[name] = new["metadata"] | value if name == "metadata" else value
    rules.default(new)
    (rules.prepare_status if status else rules.prepare_update)(new, old, Alone())
    assert old == before, "the rules changed what is stored"
    return new


def change_refused(rules: Rules, old: Object, *, status: bool = False, **changes: Any) -> list[str]:
    """Why it cannot be changed so."""
    new = updated(rules, old, status=status, **changes)
    judged = rules.validate_status(new, old) if status else rules.validate_update(new, old)
    return told([*rules.metadata_update_errors(new, old), *judged])


def told(errors: Iterable[FieldError]) -> list[str]:
    """As a user reads them: nothing twice."""
    return list(dict.fromkeys(map(str, errors)))
