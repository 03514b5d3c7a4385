"""``adopt`` or ``release`` of one Service by a process that is killed in the middle: KUBECONFIG WAY KEY WRITES.

It kills itself when it is about to write once more than WRITES times.
"""

import asyncio
import os
import signal
import sys

from zoneward.client.auth.kubeconfig import load_client_config
from zoneward.client.transport import Transport
from zoneward.client.writer import Writer
from zoneward.controller.handover.service_handover import ServiceHandover
from zoneward.routing.configuration import Configuration


async def run(kubeconfig: str, way: str, key: str, writes: int) -> None:
    access = load_client_config(kubeconfig=kubeconfig, context=None, impersonate=None, environment=os.environ)
    left = [writes]

    def may_write(_seconds: float) -> bool:
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)
        left[0] -= 1
        return True

    namespace, _, name = key.partition("/")
    async with Transport(access) as transport:
        adopting = ServiceHandover(
            transport,
            (namespace, name),
            configuration=Configuration(),
            report=print,
            writer=Writer(transport, may_write=may_write),
        )
        await (adopting.adopt(endpoints_policy="keep") if way == "adopt" else adopting.release())


if __name__ == "__main__":
    asyncio.run(run(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])))
