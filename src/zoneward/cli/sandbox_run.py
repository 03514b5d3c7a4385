"""Runs ``zoneward sandbox`` until a signal stops it."""

import asyncio
import shlex
import signal
import socket
import sys
from collections.abc import Coroutine, Iterator
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import click
import yaml

from zoneward.cli.output import atomic_file, compressed_by_name, print_line
from zoneward.kube.gc_tuning import freeze_objects, without_gc
from zoneward.kube.input_error import InputError
from zoneward.kube.input_files import STDIN_NAME, expand, load
from zoneward.kube.yaml_documents import read_document
from zoneward.sandbox.server.catalog import parse_gates
from zoneward.sandbox.server.kinds import ServerGates
from zoneward.sandbox.server.persistence import load_objects, new_registry, save_objects
from zoneward.sandbox.server.resource_registry import Registry
from zoneward.sandbox.server.sandbox_server import CONTEXT, SandboxServer

if TYPE_CHECKING:
    from zoneward.sandbox.play.play_file import Play

_SAVING: Final = 5.0
"""Seconds between two saves while objects change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxOptions:
    """The values of the options."""

    files: tuple[str, ...]
    sample: bool
    save: Path | None
    port: int
    listen: str
    kubeconfig: Path | None
    play: str | None
    gates: tuple[str, ...]
    built_in: bool
    quiet: bool


def run_sandbox(options: "SandboxOptions") -> None:
    """Serve until SIGTERM or SIGINT. Raises InputError or a usage error, before anything is served or written."""
    gates = _gates(options)
    if options.kubeconfig is not None:
        _refuse_other_kubeconfig(options.kubeconfig)
    play = None
    if options.play is not None:
        # Import it only with --play: it takes time.
        from zoneward.sandbox.play.play_file import read_play

        play = read_play(options.play)
    if options.built_in:
        from zoneward.cli.daemon_command import import_program

        import_program("zoneward.controller.endpointslice_controller", command="sandbox --with-builtin-controller")
    with without_gc():
        registry = new_registry(gates=gates)
        notes = list(_fill(registry, options))
    # Most of these objects live long: exclude them from garbage collection.
    freeze_objects()
    _print_notes(options, *notes)
    # Ctrl-C before the signal handlers are installed also ends the sandbox.
    with suppress(KeyboardInterrupt):
        asyncio.run(_serve(registry, options, play))


async def _serve(registry: Registry, options: "SandboxOptions", play: "Play | None") -> None:
    end = asyncio.Event()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(signal_number, end.set)
    async with AsyncExitStack() as last, AsyncExitStack() as stack:
        ends_pods = play is None  # otherwise the play ends them
        serving = SandboxServer(registry, host=options.listen, port=options.port, ends_pods=ends_pods)
        try:
            await stack.enter_async_context(serving)
        except (OSError, UnicodeError) as error:
            problem = error.strerror if isinstance(error, OSError) else "no name of a host"
            raise InputError("--listen, --port", f"expected an address that is free, got: {problem}") from error
        if options.save is not None:
            _save(registry, options.save)
            # Save after the last connection is closed, so that all answered writes are saved.
            last.callback(_save, registry, options.save)
        if options.kubeconfig is not None:
            written = _write_kubeconfig(options.kubeconfig, serving)
            stack.callback(_delete_kubeconfig, options.kubeconfig, written)
        _announce(serving, options)
        works = [] if play is None else [_played(play, registry, options)]
        if options.built_in:
            works.append(run_built_in_controller(serving, is_quiet=options.quiet))
        working = [asyncio.create_task(_ending(work, end)) for work in works]
        await _until(end, registry, options.save)
        for task in working:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def _ending(work: Coroutine[Any, Any, None], end: asyncio.Event) -> None:
    """Work until cancelled; end the sandbox if that fails."""
    try:
        await work
    except BaseException:
        end.set()
        raise


async def _played(play: "Play", registry: Registry, options: "SandboxOptions") -> None:
    """Run the play until cancelled. Raises InputError if the server refuses a step."""
    from zoneward.sandbox.play.driver import play as perform

    await perform(
        play,
        registry,
        clock=lambda: registry.now,
        sleep=asyncio.sleep,
        on_line=lambda line: _print_notes(options, line),
        source=options.play or "play",
    )


async def run_built_in_controller(serving: SandboxServer, *, is_quiet: bool) -> None:
    """Keep the EndpointSlices of all Services with a selector until cancelled: Zoneward's own controller, which decides
    and labels as the built-in one does. With it ``adopt`` and ``release`` can be rehearsed without a cluster.

    It writes no Events, and Services that Zoneward adopted have no selector. Raises CallFailed where the sandbox cannot
    be read at all.
    """
    from zoneward.client.auth.client_config import ClientConfig, ClusterInfo, UserInfo
    from zoneward.client.transport import Transport
    from zoneward.client.writer import Writer
    from zoneward.controller.context import ControllerContext
    from zoneward.controller.controller_configuration import Mode
    from zoneward.controller.endpointslice_controller import EndpointSliceController
    from zoneward.daemon.log import LogFormat, SilentLog
    from zoneward.daemon.structured_log import Level, new_log
    from zoneward.routing.configuration import Configuration

    cluster = ClusterInfo(server=serving.address, is_compressed=False)
    access = ClientConfig(cluster=cluster, user=UserInfo(token=serving.token))
    async with Transport(access, is_terminal=False) as transport:
        context = ControllerContext(
            connection=transport,
            writer=Writer(transport),
            configuration=Configuration().as_upstream(),
            mode=Mode.TAKE_OVER,
            is_stand_in=True,
            log=SilentLog() if is_quiet else new_log(form=LogFormat.TEXT, level=Level.WARNING),
        )
        await EndpointSliceController(context).run()


async def _until(end: asyncio.Event, registry: Registry, save: Path | None) -> None:
    """Save what changes from now on, until the end."""
    if save is None:
        await end.wait()
        return
    saved = registry.store.version
    while not end.is_set():
        with suppress(TimeoutError):
            async with asyncio.timeout(_SAVING):
                await end.wait()
        if registry.store.version != saved and not end.is_set():
            saved = registry.store.version
            _save(registry, save)


# --- options ----------------------------------------------------------------------------------------------------------


def _gates(options: "SandboxOptions") -> ServerGates:
    try:
        return parse_gates(options.gates)
    except ValueError as error:
        raise click.UsageError(f"--feature-gates: {error}") from None


def _fill(registry: Registry, options: "SandboxOptions") -> Iterator[str]:
    files: list[tuple[str, bytes | bytearray]] = []
    if options.sample:
        from zoneward.sample import cluster

        files.append(("the sample", cluster().read_bytes()))
    for file in expand(options.files) if options.files else ():
        data = load(file, stdin=sys.stdin.buffer)
        files.append((STDIN_NAME if file == "-" else file, data))
    skipped = load_objects(registry, files)
    for kind, count in sorted(skipped.items()):
        yield f"{count} {kind} skipped: the sandbox has no such kind"


# --- the kubeconfig ---------------------------------------------------------------------------------------------------


def _refuse_other_kubeconfig(file: Path) -> None:
    """Refuse to replace a kubeconfig of another cluster. Delete one of an earlier sandbox that has ended: programs may
    wait for the file of this one.
    """
    try:
        known = read_document(str(file), what="kubeconfig", most=1)
    except InputError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return
        known = None
    contexts = known.get("contexts") if isinstance(known, dict) else None
    known_contexts = contexts if isinstance(contexts, list) else []
    if [context.get("name") for context in known_contexts if isinstance(context, dict)] != [CONTEXT]:
        expected = "expected a new file, or one that a sandbox wrote, got one with something else"
        raise InputError(str(file), expected)
    if not _is_running(known):
        file.unlink(missing_ok=True)


def _is_running(kubeconfig: Any) -> bool:
    """Whether the server of a sandbox's kubeconfig accepts connections."""
    try:
        address = urlsplit(kubeconfig["clusters"][0]["cluster"]["server"])
        socket.create_connection((address.hostname, address.port), timeout=1).close()
    except (OSError, LookupError, TypeError, ValueError):
        return False
    return True


def _write_kubeconfig(file: Path, serving: SandboxServer) -> bytes:
    """The text that was written."""
    text = yaml.safe_dump(serving.kubeconfig(), sort_keys=False).encode()
    # The file has the token: create it with private permissions.
    with atomic_file(file, option="--write-kubeconfig", private=True) as stream:
        stream.write(text)
    return text


def _delete_kubeconfig(file: Path, written: bytes) -> None:
    """Leave what another sandbox has written since."""
    with suppress(OSError):
        if file.read_bytes() == written:
            file.unlink()


def _announce(serving: SandboxServer, options: "SandboxOptions") -> None:
    how = f"--server={serving.address}" if options.kubeconfig is None else f"--kubeconfig={options.kubeconfig}"
    print_line(f"The sandbox is ready: kubectl {shlex.quote(how)} get services -A")
    sys.stdout.flush()


def _print_notes(options: "SandboxOptions", *notes: str) -> None:
    if not options.quiet:
        for note in notes:
            print_line(f"zoneward: {note}", err=True)


# --- saving -----------------------------------------------------------------------------------------------------------


def _save(registry: Registry, file: Path) -> None:
    with (
        atomic_file(file, option="--save", private=True) as stream,
        compressed_by_name(stream, file.name, level=1) as compressed,
    ):
        save_objects(registry, compressed)
