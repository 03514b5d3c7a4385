"""What a path is about."""

from collections.abc import Iterable
from dataclasses import dataclass

from zoneward.sandbox.server.kinds import Action, Kind


@dataclass(frozen=True, slots=True)
class Route:
    """A kind; with a name one object, and perhaps a part of it."""

    kind: Kind
    namespace: str = ""
    """Empty: of all namespaces, or of a kind without them."""
    name: str = ""
    subresource: str = ""
    is_watch: bool = False
    """The older way to ask for a watch: ``/api/v1/watch/pods``."""

    @property
    def action(self) -> Action | None:
        """What the subresource does, where it is one of those."""
        return next((each for each in self.kind.actions if each.name == self.subresource), None)


class Routes:
    def __init__(self, kinds: Iterable[Kind]) -> None:
        self._kinds = {(kind.api, kind.plural): kind for kind in kinds}

    def route(self, path: str) -> Route | None:
        """None for a path that is about no objects of a known kind."""
        parts = path.strip("/").split("/")
        if parts[0] == "api" and len(parts) > 2:
            api, rest = parts[1], parts[2:]
        elif parts[0] == "apis" and len(parts) > 3:
            api, rest = f"{parts[1]}/{parts[2]}", parts[3:]
        else:
            return None
        namespace, is_watch = "", rest[0] == "watch"
        if is_watch:
            rest = rest[1:] or [""]
        if rest[0] == "namespaces" and len(rest) > 2 and (api, rest[2]) in self._kinds:
            namespace, rest = rest[1], rest[2:]
        kind = self._kinds.get((api, rest[0]))
        if kind is None or len(rest) > 3 or not all(rest) or (bool(namespace) and not kind.is_namespaced):
            return None
        name, subresource = (*rest[1:], "", "")[:2]
        if name and kind.is_namespaced and not namespace:
            return None
        if subresource and subresource not in kind.subresources:
            return None
        return Route(kind, namespace, name, subresource, is_watch)
