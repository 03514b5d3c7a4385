"""The EndpointSlice controller of a sandbox: Zoneward's own, which decides and labels as the built-in one does.

With it ``adopt`` and ``release`` can be rehearsed without a cluster.
"""

from zoneward.client.auth.client_config import ClientConfig, ClusterInfo, UserInfo
from zoneward.client.transport import Transport
from zoneward.client.writer import Writer
from zoneward.controller.context import ControllerContext
from zoneward.controller.endpointslice_controller import EndpointSliceController
from zoneward.controller.mode import Mode
from zoneward.daemon.log import Log, LogFormat, SilentLog
from zoneward.daemon.structured_log import Level, new_log
from zoneward.routing.configuration import Configuration


async def run_built_in_controller(server: str, token: str, *, is_quiet: bool) -> None:
    """Keep the EndpointSlices of all Services with a selector in the sandbox at ``server``, until cancelled.

    It writes no Events, and Services that Zoneward adopted have no selector. Raises CallFailed where the sandbox cannot
    be read at all.
    """
    # The server is in this process: no need to verify its certificate.
    access = ClientConfig(
        cluster=ClusterInfo(server=server, insecure=True, is_compressed=False), user=UserInfo(token=token)
    )
    log: Log = SilentLog() if is_quiet else new_log(form=LogFormat.TEXT, level=Level.WARNING)
    async with Transport(access, is_terminal=False) as transport:
        context = ControllerContext(
            connection=transport,
            writer=Writer(transport),
            configuration=Configuration().as_upstream(),
            mode=Mode.TAKE_OVER,
            is_stand_in=True,
            log=log,
        )
        await EndpointSliceController(context).run()
