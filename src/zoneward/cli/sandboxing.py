"""From options to a sandbox that runs until it is told to end."""

import asyncio
import base64
import signal
import ssl
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager, suppress
from dataclasses import dataclass
from gzip import GzipFile
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

import click
import yaml

from zoneward.cli.printing import print_line
from zoneward.cli.whole_file import whole_file
from zoneward.kube.gc_tuning import freeze_objects, without_gc
from zoneward.kube.input_error import InputError, MalformedText
from zoneward.kube.input_files import STDIN_NAME, expand, load, open_file, read_small
from zoneward.kube.yaml_documents import whole_documents
from zoneward.sandbox.server.catalog import ServerGates, parse_gates
from zoneward.sandbox.server.faults import FaultInjector, parse_fault
from zoneward.sandbox.server.persistence import load_objects, new_registry, save_objects
from zoneward.sandbox.server.resource_registry import Registry
from zoneward.sandbox.server.sandbox_server import CONTEXT, SandboxServer

if TYPE_CHECKING:
    from zoneward.sandbox.play.play_model import Play

_SAVING: Final = 5.0
"""Seconds between two saves while objects change; longer where a save takes long."""
_LARGEST_KUBECONFIG: Final = 1 << 20
"""Bytes. What is larger is no kubeconfig that a sandbox wrote."""
_SHARE: Final = 20
"""Of the time, at most one part in so many is spent on saving."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the command line says."""

    files: tuple[str, ...]
    sample: bool
    save: Path | None
    port: int
    listen: str
    kubeconfig: Path | None
    tls_certificate: str | None
    tls_key: str | None
    play: str | None
    faults: tuple[str, ...]
    fault_seed: int
    gates: tuple[str, ...]
    quiet: bool


def run(asked: Asked) -> None:
    """Until SIGTERM or SIGINT. Raises InputError or a usage error, before anything is served or written."""
    faults = _faults(asked)
    gates = _gates(asked)
    trust = _trust(asked)
    if asked.kubeconfig is not None:
        _refuse_another(asked.kubeconfig)
    play = None if asked.play is None else _play(asked.play)
    with without_gc():
        registry = new_registry(gates=gates)
        notes = list(_filled(registry, asked))
    # What is there now mostly stays: looking through it again and again would be in vain.
    freeze_objects()
    _tell(asked, *notes)
    # Ctrl-C before there is somebody to take it ends it just as well.
    with suppress(KeyboardInterrupt):
        asyncio.run(_serve(registry, asked, faults, trust, play))


async def _serve(
    registry: Registry, asked: Asked, faults: FaultInjector | None, trust: ssl.SSLContext | None, play: "Play | None"
) -> None:
    end = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, end.set)
    async with AsyncExitStack() as last, AsyncExitStack() as stack:
        ends_pods = play is None  # otherwise those who play end them
        serving = SandboxServer(
            registry, host=asked.listen, port=asked.port, trust=trust, faults=faults, ends_pods=ends_pods
        )
        try:
            await stack.enter_async_context(serving)
        except (OSError, UnicodeError) as error:
            problem = error.strerror if isinstance(error, OSError) else "no name of a host"
            raise InputError("--listen, --port", f"expected an address that is free, got: {problem}") from error
        if asked.save is not None:
            # When no connection is left: who was answered finds what was written.
            last.callback(_save, registry, asked.save)
        if asked.kubeconfig is not None:
            _write_kubeconfig(asked.kubeconfig, serving, asked)
            stack.callback(asked.kubeconfig.unlink, missing_ok=True)
        _announce(serving, asked)
        playing = None if play is None else asyncio.create_task(_played(play, registry, asked, end))
        await _until(end, registry, asked.save)
        if playing is not None:
            playing.cancel()
            with suppress(asyncio.CancelledError):
                await playing


async def _played(play: "Play", registry: Registry, asked: Asked, end: asyncio.Event) -> None:
    """Until cancelled. A play that the server refuses ends the sandbox."""
    from zoneward.sandbox.play.driver import play as perform
    from zoneward.sandbox.server.resource_registry import LocalClient

    kinds = {(kind.api, kind.kind): kind for kind in registry.kinds.values()}
    try:
        await perform(
            play,
            LocalClient(registry),
            kinds=kinds,
            clock=lambda: registry.now,
            sleep=asyncio.sleep,
            tell=lambda line: _tell(asked, line),
        )
    except BaseException:
        end.set()
        raise


async def _until(end: asyncio.Event, registry: Registry, save: Path | None) -> None:
    """Saves meanwhile what has changed."""
    if save is None:
        await end.wait()
        return
    _save(registry, save)
    saved, pause = registry.store.version, _SAVING
    clock = asyncio.get_running_loop().time
    while True:
        try:
            async with asyncio.timeout(pause):
                await end.wait()
                return
        except TimeoutError:
            pass
        if registry.store.version != saved:
            saved, begin = registry.store.version, clock()
            _save(registry, save)
            pause = max(_SAVING, _SHARE * (clock() - begin))


# --- what was asked for -----------------------------------------------------------------------------------------------


def _faults(asked: Asked) -> FaultInjector | None:
    found = []
    for text in asked.faults:
        try:
            found.append(parse_fault(text))
        except ValueError as error:
            raise click.UsageError(f"--fault: expected {error}, got {text!r}") from None
    return FaultInjector(tuple(found), seed=asked.fault_seed) if found else None


def _gates(asked: Asked) -> ServerGates:
    try:
        return parse_gates(asked.gates)
    except ValueError as error:
        raise click.UsageError(f"--feature-gates: {error}") from None


def _play(file: str) -> "Play":
    # Only who plays waits for the import.
    from zoneward.sandbox.play.play_file import read_play

    return read_play(file)


def _trust(asked: Asked) -> ssl.SSLContext | None:
    if asked.tls_certificate is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        for file in filter(None, (asked.tls_certificate, asked.tls_key)):
            # OpenSSL would wait for who writes to a named pipe.
            open_file(file).close()
        context.load_cert_chain(asked.tls_certificate, asked.tls_key)
    except (OSError, ssl.SSLError) as error:
        problem = error.strerror if isinstance(error, OSError) and error.strerror else error
        expected = "expected a certificate and its key in PEM"
        raise InputError("--tls-certificate, --tls-key", f"{expected}, got: {problem}") from None
    return context


def _filled(registry: Registry, asked: Asked) -> Iterator[str]:
    files: list[tuple[str, bytes | bytearray]] = []
    if asked.sample:
        from zoneward.sample import cluster

        files.append(("the sample", cluster().read_bytes()))
    for file in expand(asked.files) if asked.files else ():
        data = load(file, stdin=sys.stdin.buffer)
        files.append((STDIN_NAME if file == "-" else file, data))
    skipped = load_objects(registry, files)
    for name, number in sorted(skipped.items()):
        yield f"{number} {name} skipped: the sandbox has no such kind"


# --- the kubeconfig ---------------------------------------------------------------------------------------------------


def _refuse_another(file: Path) -> None:
    """A file that was there may be somebody's way to a cluster. One that a sandbox left is taken away: whoever waits
    for the file waits for this sandbox.
    """
    try:
        (known,) = whole_documents(read_small(file, most=_LARGEST_KUBECONFIG))
    except FileNotFoundError:
        return
    except (OSError, ValueError, MalformedText):
        known = None
    contexts = known.get("contexts") if isinstance(known, dict) else None
    if not isinstance(contexts, list) or [each.get("name") for each in contexts if isinstance(each, dict)] != [CONTEXT]:
        expected = "expected a new file, or one that a sandbox wrote, got one with something else"
        raise InputError(str(file), expected)
    file.unlink(missing_ok=True)


def _write_kubeconfig(file: Path, serving: SandboxServer, asked: Asked) -> None:
    authority = None
    if asked.tls_certificate is not None:
        authority = base64.b64encode(Path(asked.tls_certificate).read_bytes()).decode()
    text = yaml.safe_dump(serving.kubeconfig(authority_data=authority), sort_keys=False)
    # It holds the token: nobody else may read it, not even for a moment.
    with whole_file(file, option="--kubeconfig", private=True) as stream:
        stream.write(text.encode())


def _announce(serving: SandboxServer, asked: Asked) -> None:
    how = f"--server={serving.address}" if asked.kubeconfig is None else f"--kubeconfig={asked.kubeconfig}"
    print_line(f"The sandbox is ready: kubectl {how} get services -A")
    sys.stdout.flush()


def _tell(asked: Asked, *notes: str) -> None:
    if not asked.quiet:
        for note in notes:
            print_line(f"zoneward: {note}", err=True)


# --- saving -----------------------------------------------------------------------------------------------------------


def _save(registry: Registry, file: Path) -> None:
    with whole_file(file, option="--save", private=True) as stream, _packed(stream, file) as packed:
        save_objects(registry, packed)


@contextmanager
def _packed(stream: IO[bytes], file: Path) -> Iterator[IO[bytes]]:
    if not file.name.lower().endswith(".gz"):
        yield stream
        return
    with GzipFile(filename="", mode="wb", compresslevel=1, fileobj=stream, mtime=0) as packed:
        yield packed  # type: ignore[misc]
