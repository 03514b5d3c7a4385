"""A leader elector as a process of its own: ``python lease_elector.py KUBECONFIG NAMESPACE NAME IDENTITY``.

It prints a line, ``leads SECONDS`` or ``follows SECONDS``, whenever that changes, by a clock that all processes of a
machine share. SIGTERM makes it let go.
"""

import asyncio
import os
import signal
import sys
from contextlib import suppress

from zoneward.client.api_errors import CallFailed
from zoneward.client.auth.kubeconfig import load_client_config
from zoneward.client.transport import Transport
from zoneward.controller.leader.election import LeaseTiming
from zoneward.controller.leader.leader_elector import LeaderCallbacks, LeaderElector, since_boot

QUICK = LeaseTiming(lease_duration=3, renew_deadline=2, retry_period=0.5)


def tell(leads: bool) -> None:
    sys.stdout.write(f"{'leads' if leads else 'follows'} {since_boot()}\n")
    sys.stdout.flush()


def complain(trouble: CallFailed) -> None:
    sys.stderr.write(f"{type(trouble).__name__}: {trouble}\n")


async def run(kubeconfig: str, namespace: str, name: str, identity: str) -> None:
    access = load_client_config(kubeconfig=kubeconfig, environment=os.environ)
    async with Transport(access, is_terminal=False) as transport:
        elector = LeaderElector(
            transport,
            key=(namespace, name),
            identity=identity,
            timing=QUICK,
            callbacks=LeaderCallbacks(on_change=tell, on_error=complain),
        )
        running = asyncio.create_task(elector.run())
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, running.cancel)
        with suppress(asyncio.CancelledError):
            await running
        await elector.release()


if __name__ == "__main__":
    asyncio.run(run(*sys.argv[1:]))
