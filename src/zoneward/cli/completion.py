"""``zoneward completion``, how shells complete, and what they offer for namespaces, Services, nodes and contexts.

Completion reports no errors and waits at most for `TIME_LIMIT`, so that it never disturbs the line being typed.
"""

import os
import re
import signal
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ZshComplete,
    add_completion_class,
    get_completion_class,
    split_arg_string,
)

if TYPE_CHECKING:
    from zoneward.client.auth.client_config import ClientConfig
    from zoneward.client.resources import ApiResource
    from zoneward.kube.objects import ObjectKey
    from zoneward.snapshots.cluster_snapshot import Snapshot

COMPLETE_VARIABLE: Final = "_ZONEWARD_COMPLETE"
"""A completion script sets it, to ``bash_complete`` for example, and click answers."""
TIME_LIMIT: Final = 1.5
"""Seconds for the cluster's answers."""
PROCESS_TIME_LIMIT: Final = 3.0
"""Seconds after which the process ends in any case; with 0, never."""
_LARGEST: Final = 1 << 20
"""Bytes of all files together: larger ones take too long to read."""
_COMPRESSED: Final = 20
"""How much larger a compressed file may become."""
_SAFE: Final = re.compile(r"(?!-)[\w.,:/@+-]+", re.ASCII)
"""A shell takes these letters as they are, wherever they come from, and no command takes the word for an option."""

_KIND_NAMES: Final = ("svc", "service", "services")

_Candidates = Callable[[click.Context, str], Iterable[str]]
_ShellComplete = Callable[[click.Context, click.Parameter, str], list[CompletionItem[str]]]


def begin_completion() -> None:
    """Make this process say nothing on standard error, and end soon."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    signal.signal(signal.SIGALRM, lambda *_: os._exit(0))
    signal.setitimer(signal.ITIMER_REAL, PROCESS_TIME_LIMIT)


def complete_names_or_files(*names: str) -> _ShellComplete:
    """Offer the names, and files, which the shell completes."""

    def complete(_ctx: click.Context, _option: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
        matches = [CompletionItem(name) for name in names if name.startswith(incomplete)]
        return [*matches, CompletionItem(incomplete, type="file")]

    return complete


complete_files: Final = complete_names_or_files()


def _completing(candidates: _Candidates) -> _ShellComplete:
    def complete(ctx: click.Context, _option: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
        # No error may reach the line that is being typed.
        with suppress(Exception):
            names = {name for name in candidates(ctx, incomplete) if name.startswith(incomplete)}
            return [CompletionItem(name) for name in sorted(names) if _SAFE.fullmatch(name)]
        return []

    return complete


def complete_names(*names: str) -> _ShellComplete:
    return _completing(lambda _ctx, _incomplete: names)


@_completing
def complete_context(ctx: click.Context, _incomplete: str) -> Iterable[str]:
    from zoneward.client.auth.kubeconfig import context_names

    return context_names(kubeconfig=ctx.params.get("kubeconfig"), environment=os.environ)


@_completing
def complete_namespace(ctx: click.Context, _incomplete: str) -> Iterable[str]:
    if (snapshot := _snapshot(ctx)) is not None:
        lists = (snapshot.services, snapshot.pods, snapshot.slices)
        return {namespaced.metadata.namespace for objects in lists for namespaced in objects}
    from zoneward.client.resources import NAMESPACES

    return (name for _, name in _list(_access(ctx), NAMESPACES))


@_completing
def complete_node(ctx: click.Context, _incomplete: str) -> Iterable[str]:
    if (snapshot := _snapshot(ctx)) is not None:
        return [node.metadata.name for node in snapshot.nodes]
    from zoneward.client.resources import NODES

    return (name for _, name in _list(_access(ctx), NODES))


@_completing
def complete_service(ctx: click.Context, incomplete: str) -> Iterable[str]:
    """``NAMESPACE/SERVICE`` after a slash and where all namespaces are meant, else the names alone; after ``svc/``
    again with it."""
    wanted = without_kind(incomplete)
    kind = incomplete.removesuffix(wanted)
    named, slash, _ = wanted.partition("/")
    given = ctx.params.get("namespaces") or tuple(filter(None, (ctx.params.get("namespace"),)))
    snapshot = _snapshot(ctx)
    keys: Iterable[ObjectKey]
    if snapshot is not None:
        keys = [(service.metadata.namespace, service.metadata.name) for service in snapshot.services]
        is_named = bool(given)
    else:
        from zoneward.client.resources import SERVICES

        access = _access(ctx)
        every = bool(ctx.params.get("all_namespaces"))
        namespaces = (named,) if slash else (None,) if every else given or (access.namespace,)
        keys = [key for namespace in namespaces for key in _list(access, SERVICES, namespace=namespace)]
        is_named = not every
    if given:
        keys = [key for key in keys if key[0] in given]
    return [kind + (name if is_named and not slash else f"{namespace}/{name}") for namespace, name in keys]


def without_kind(name: str) -> str:
    """``cart`` for ``svc/cart``, as kubectl takes it. A namespace of such a name has to be given by ``-n``."""
    kind, slash, rest = name.partition("/")
    return rest if slash and kind.lower() in _KIND_NAMES else name


@_completing
def complete_approaches(_ctx: click.Context, incomplete: str) -> Iterable[str]:
    from zoneward.routing.what_if import WHAT_IF_VALUES

    return _last_of_list(incomplete, WHAT_IF_VALUES)


@_completing
def complete_algorithms(_ctx: click.Context, incomplete: str) -> Iterable[str]:
    from zoneward.lab.contenders import ALGORITHMS

    return _last_of_list(incomplete, ("all", *ALGORITHMS))


@_completing
def complete_encodings(_ctx: click.Context, incomplete: str) -> Iterable[str]:
    from zoneward.routing.simulation_results import ENCODINGS

    return _last_of_list(incomplete, ("all", "both", *ENCODINGS))


def _last_of_list(incomplete: str, names: Iterable[str]) -> list[str]:
    """The last of several names with commas between."""
    before, comma, _ = incomplete.rpartition(",")
    return [before + comma + name for name in names]


# --- where names come from --------------------------------------------------------------------------------------------


def _snapshot(ctx: click.Context) -> "Snapshot | None":
    """The files on the line; None where the line has none. Raises an error for files that are too large."""
    files = ctx.params.get("files") or ()
    if ctx.params.get("sample"):
        from zoneward.sample import cluster

        files = (str(cluster()),)
    if not files:
        return None
    from zoneward.kube.input_files import STDIN, expand
    from zoneward.snapshots.cluster_snapshot import read_snapshot

    paths = list(expand(files))
    if STDIN in paths or sum(map(_size, paths)) > _LARGEST:
        raise ValueError("there is no time to read this")
    return read_snapshot(paths, stdin=None)


def _size(file: str) -> int:
    return os.stat(file).st_size * (_COMPRESSED if file.endswith(".gz") else 1)  # noqa: PTH116


def _access(ctx: click.Context) -> "ClientConfig":
    """The cluster of the line. A plugin for credentials may ask nobody: the shell reads what is typed."""
    from dataclasses import replace

    from zoneward.client.auth.kubeconfig import load_client_config

    access = load_client_config(
        kubeconfig=ctx.params.get("kubeconfig"),
        context=next(iter(ctx.params.get("contexts") or ()), ctx.params.get("context")),
        impersonate=ctx.params.get("impersonate"),
        environment=os.environ,
    )
    plugin = access.user.exec_plugin
    if plugin is None or plugin.interactive == "Always":
        return access
    return replace(access, user=replace(access.user, exec_plugin=replace(plugin, interactive="Never")))


def _list(access: "ClientConfig", resource: "ApiResource[Any]", *, namespace: str | None = None) -> "list[ObjectKey]":
    import asyncio

    from zoneward.client.list_pager import list_names
    from zoneward.client.transport import Transport

    async def names() -> "list[ObjectKey]":
        async with Transport(access, is_terminal=False) as transport:
            return await list_names(transport, resource, namespace=namespace, time_limit=TIME_LIMIT)

    return asyncio.run(names())


# --- scripts ----------------------------------------------------------------------------------------------------------

_BASH: Final = r"""%(complete_func)s() {
    local line="${COMP_LINE:0:COMP_POINT}" type value word prefix=
    word="${line##*[[:space:]]}"
    [[ $word == -*=* ]] && word="${word#*=}"
    # bash splits words at colons, which names of contexts have, and replaces only what is after the last one.
    [[ $COMP_WORDBREAKS == *:* && $word == *:* ]] && prefix="${word%%:*}:"
    COMPREPLY=()
    while IFS=, read -r type value; do
        case $type in
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
            plain) COMPREPLY+=("${value#"$prefix"}") ;;
        esac
    done < <(COMP_LINE="$line" %(complete_var)s=bash_complete "$1" 2>/dev/null)
}

complete -o nosort -F %(complete_func)s %(prog_name)s
"""

_ZSH: Final = r"""#compdef %(prog_name)s

%(complete_func)s() {
    local -a names described response
    local type name about
    (( ! $+commands[%(prog_name)s] )) && return 1

    response=("${(@f)$(
        env COMP_WORDS="${words[*]}" COMP_CWORD=$((CURRENT-1)) %(complete_var)s=zsh_complete %(prog_name)s
    )}")
    # zsh replaces the whole word, but what is offered for --option=value is the value alone.
    [[ ${words[CURRENT]} == --*=* ]] && compset -P 1 '*='

    for type name about in ${response}; do
        case $type in
            dir) _path_files -/ ;;
            file) _path_files -f ;;
            plain) [[ $about == _ ]] && names+=("$name") || described+=("$name:$about") ;;
        esac
    done
    (( $#described )) && _describe -V unsorted described
    (( $#names )) && compadd -V unsorted -a names
}

compdef %(complete_func)s %(prog_name)s
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    # zsh loads this file as the function when it first completes the command.
    %(complete_func)s "$@"
fi
"""

_FISH: Final = r"""function %(complete_func)s
    # fish matches the whole word, but what is offered for --option=value is the value alone.
    set -l option (string match --regex -- '^--[^=]*=' (commandline -ct))
    set -l line (commandline -cp | string collect)
    for completion in (env %(complete_var)s=fish_complete COMP_LINE="$line" %(prog_name)s)
        set -l candidates
        set -l parts (string split --max 1 , $completion)
        switch $parts[1]
            case dir
                set candidates (__fish_complete_directories $parts[2])
            case file
                set candidates (__fish_complete_path $parts[2])
            case plain
                set candidates $parts[2]
        end
        for candidate in $candidates
            printf '%%s\n' "$option$candidate"
        end
    end
end

complete --no-files --command %(prog_name)s --arguments "(%(complete_func)s)"
"""


def _typed_words() -> tuple[list[str], str]:
    """The words before the one that is being typed, and this one."""
    # The x shows where this one ends: it may be empty, or end with a space inside of quotes.
    *words, last = split_arg_string(os.environ.get("COMP_LINE", "") + "x")
    return words[1:], last[:-1]


@add_completion_class
class LineComplete(BashComplete):
    """It gets the line as it was typed, for bash has its own view of what a word is."""

    name = "bash"
    source_template = _BASH

    @staticmethod
    def _check_version() -> None:
        """click would start a bash for this, before each answer."""

    def get_completion_args(self) -> tuple[list[str], str]:
        return _typed_words()


@add_completion_class
class WordComplete(ZshComplete):
    """click's script drops what is before the = of a word."""

    source_template = _ZSH


@add_completion_class
class FishLineComplete(FishComplete):
    """click's script offers nothing after a =, and cuts values and descriptions at their first comma."""

    source_template = _FISH

    def get_completion_args(self) -> tuple[list[str], str]:
        return _typed_words()


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print a completion script for a shell. It completes commands, options and values, and the namespaces, Services,
    nodes and contexts of the cluster or of the files on the line.

    \b
    bash:  source <(zoneward completion bash)
    zsh:   source <(zoneward completion zsh)
    fish:  zoneward completion fish | source

    `kubectl zoneward` needs none of these: kubectl runs kubectl_complete-zoneward, which is installed beside zoneward.
    """
    completion = get_completion_class(shell)
    assert completion is not None
    click.echo(completion(ctx.find_root().command, {}, "zoneward", COMPLETE_VARIABLE).source())
