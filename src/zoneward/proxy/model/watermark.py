"""Up to which versions everything that was heard of is in the kernel.

What is heard of comes in the order of versions, and is programmed in any. A Service that changed after a version, and
is not programmed since, holds the mark at that version; everything else goes past it.
"""

from collections.abc import Callable, Set
from typing import Final

from zoneward.client.resources import SERVICES, SLICES
from zoneward.kube.objects import ObjectKey
from zoneward.kube.proxy_lease import MAX_NOT_PROGRAMMED, ProgrammedReport

KINDS: Final = (SERVICES.kind, SLICES.kind)


class Watermark:
    """Tell it of every change, in order: `changed` when a Service or a slice of it changed, then `received`."""

    def __init__(self) -> None:
        self._received: dict[str, int] = {}
        self._since: dict[ObjectKey, dict[str, int]] = {}
        """Of Services that changed: what had been received before they first did."""

    def received(self, kind: str, version: int) -> None:
        """All that happened to a kind up to a version was received, and `changed` told of what it concerns."""
        if kind in KINDS:
            self._received[kind] = version

    def changed(self, service: ObjectKey) -> None:
        """A Service, or a slice of it, is now another one, or gone: from now on it has to be programmed anew."""
        if service not in self._since:
            self._since[service] = dict(self._received)

    def programmed(
        self, *, waits: Callable[[ObjectKey], bool], refused: Set[ObjectKey] = frozenset()
    ) -> ProgrammedReport | None:
        """What may be claimed now; None: nothing yet, for not everything was listed, and programmed once.

        ``waits`` says of a Service that changed whether it is on its way to the kernel, or nobody knows whether it
        arrived. ``refused`` are those that the kernel does not take: they are named, and hold up no others; but where
        they are more than `MAX_NOT_PROGRAMMED`, the others hold the mark, as if they were on their way. What was
        refused is gone, or was taken later, is not to be among them.
        """
        unable = sorted(refused)
        named = tuple(unable[:MAX_NOT_PROGRAMMED])
        for service in unable[MAX_NOT_PROGRAMMED:]:
            self.changed(service)
        for service in [each for each in self._since if each not in refused and not waits(each)]:
            del self._since[service]
        if any(kind not in self._received for kind in KINDS):
            return None
        exempt = frozenset(named)
        marks = dict(self._received)
        for service, before in self._since.items():
            if service in exempt:
                continue
            for kind in KINDS:
                if kind not in before:
                    return None
                marks[kind] = min(marks[kind], before[kind])
        return ProgrammedReport(marks[SERVICES.kind], marks[SLICES.kind], named)
