"""Error answers with the codes, reasons and messages of Kubernetes' ``k8s.io/apimachinery`` (v1.37)."""

from collections.abc import Sequence

from zoneward.kube.validation import FieldError
from zoneward.sandbox.server.kinds import Kind, Object


class StatusError(Exception):
    """An error answer."""

    def __init__(self, code: int, reason: str, message: str, *, details: Object | None = None) -> None:
        super().__init__(message)
        self.code, self.reason, self.message, self.details = code, reason, message, details

    def status(self) -> Object:
        """A ``Status``, the body of the answer."""
        status: Object = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
        status["message"] = self.message
        if self.reason:
            status["reason"] = self.reason
        if self.details is not None:
            status["details"] = self.details
        return status | {"code": self.code}


def unsupported(code: int, reason: str, what: str, instead: str) -> StatusError:
    """A feature of real servers that the sandbox does not have."""
    message = f"the sandbox does not support {what}: {instead}, or use a real cluster, KWOK or kind"
    return StatusError(code, reason, message, details={})


def bad_request(message: str) -> StatusError:
    return StatusError(400, "BadRequest", message)


def not_allowed() -> StatusError:
    message = "the server does not allow this method on the requested resource"
    return StatusError(405, "MethodNotAllowed", message, details={})


def not_found(kind: Kind, name: str) -> StatusError:
    return StatusError(404, "NotFound", f'{kind.resource} "{name}" not found', details=details_of(kind, name))


def already_exists(kind: Kind, name: str, *, is_ending: bool = False) -> StatusError:
    message = f'{"object is being deleted: " if is_ending else ""}{kind.resource} "{name}" already exists'
    return StatusError(409, "AlreadyExists", message, details=details_of(kind, name))


def conflict(kind: Kind, name: str, problem: str) -> StatusError:
    message = f'Operation cannot be fulfilled on {kind.resource} "{name}": {problem}'
    return StatusError(409, "Conflict", message, details=details_of(kind, name))


def modified(kind: Kind, name: str) -> StatusError:
    """Another client changed the object first."""
    problem = "the object has been modified; please apply your changes to the latest version and try again"
    return conflict(kind, name, problem)


def forbidden(kind: Kind, name: str, problem: str) -> StatusError:
    message = f'{kind.resource} "{name}" is forbidden: {problem}'
    return StatusError(403, "Forbidden", message, details=details_of(kind, name))


def invalid(kind: Kind, name: str, errors: Sequence[FieldError]) -> StatusError:
    """422 with every error, of which there is at least one; equal messages appear once."""
    messages = list(dict.fromkeys(map(str, errors)))
    message = messages[0] if len(messages) == 1 else f"[{', '.join(messages)}]"
    causes = [{"reason": error.type, "message": error.message, "field": error.field} for error in errors]
    details = details_of(kind, name) | {"kind": kind.kind, "causes": causes}
    return StatusError(422, "Invalid", f'{kind.qualified} "{name}" is invalid: {message}', details=details)


def expired() -> StatusError:
    """410 for a continue token."""
    problem = "The provided continue parameter is too old to display a consistent list result."
    return StatusError(410, "Expired", f"{problem} You must start a new list without the continue parameter.")


def too_old(version: int, oldest: int) -> StatusError:
    """410 for a watch."""
    return StatusError(410, "Expired", f"too old resource version: {version} ({oldest})")


def internal(message: str) -> StatusError:
    """500 without a reason, as upstream answers."""
    return StatusError(500, "", message)


def unexpected(error: Exception) -> StatusError:
    """500 for a bug of the sandbox, as upstream's ``NewInternalError``."""
    problem = f"{type(error).__name__}: {error}"
    details: Object = {"causes": [{"message": problem}]}
    return StatusError(500, "InternalError", f"Internal error occurred: {problem}", details=details)


def details_of(kind: Kind, name: str) -> Object:
    return {"name": name} | ({"group": kind.group} if kind.group else {}) | {"kind": kind.plural}
