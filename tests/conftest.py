"""Properties look at the same examples in every run: a commit passes or does not. ``make test`` tries half of them, and
``make search`` others."""

import importlib
import os
import pkgutil
from collections.abc import Generator, Iterator
from contextlib import suppress

import msgspec
import pytest
from hypothesis import HealthCheck, is_hypothesis_test, settings
from tests.foreground import heed_ctrl_c

import zoneward
from zoneward.kube.gc_tuning import freeze_objects, without_gc

# How long an example takes says something about the machine, not about what must hold.
_ANY_MACHINE = settings(deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("fixed", _ANY_MACHINE, derandomize=True)
settings.register_profile("search", _ANY_MACHINE)
# Half as many of the same, as in `examples`: for a run at every change.
settings.register_profile("quick", _ANY_MACHINE, derandomize=True, max_examples=_ANY_MACHINE.max_examples // 2)
settings.load_profile("fixed")
heed_ctrl_c()
# Tables are as wide as this says. readline, which pytest loads, sets it for child processes, past os.environ.
with suppress(ImportError):
    import readline  # noqa: F401
os.environ.pop("COLUMNS", None)
os.unsetenv("COLUMNS")


def pytest_addoption(parser: pytest.Parser) -> None:
    text = (
        "what tests/contract and tests/scenarios run on: sandbox or real; tests/contract: or the path of a kubeconfig"
    )
    parser.addoption("--server", default="sandbox", help=text)
    parser.addoption("--properties", action="store_true", help="only tests that draw examples")


@pytest.fixture(scope="session", autouse=True)
def _sample_is_parsed_once() -> Iterator[None]:
    """Hundreds of tests run a command on the sample cluster, of which parsing YAML would take most of the time."""
    from zoneward.kube import object_reader
    from zoneward.sample import cluster

    sample, parse, cache = cluster().read_bytes(), object_reader.iter_documents, list[bytes]()

    def documents(text: bytes | bytearray, *, read_yaml: object_reader.YamlReader) -> Iterator[object]:
        if text != sample:
            return parse(text, read_yaml=read_yaml)
        if not cache:
            cache.append(msgspec.msgpack.encode(list(parse(text, read_yaml=read_yaml))))
        # New values on each call: a reader may change them.
        return iter(msgspec.msgpack.decode(cache[0], type=list[object]))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(object_reader, "iter_documents", documents)
        yield


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """The modules and the tests stay until the end: no collection looks at them again."""
    with without_gc():
        if "PYTEST_XDIST_WORKER" in os.environ:
            _import_a_share(session.config)
        result = yield
    freeze_objects()
    return result


def _import_a_share(config: pytest.Config) -> None:
    """Without a cache, rewriting the asserts of all files takes 10 s in each worker. Each one starts with other files,
    and then finds the rest in the cache."""
    worker, count = os.environ["PYTEST_XDIST_WORKER"].removeprefix("gw"), os.environ["PYTEST_XDIST_WORKER_COUNT"]
    folders = (config.rootpath / argument for argument in config.args)
    files = sorted(file.relative_to(config.rootpath) for folder in folders for file in folder.rglob("test_*.py"))
    for file in files[int(worker) :: int(count)]:
        with suppress(Exception):  # Collecting the file reports it.
            importlib.import_module(".".join(file.with_suffix("").parts))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--properties"):
        config.hook.pytest_deselected(items=[item for item in items if not _draws_examples(item)])
        items[:] = filter(_draws_examples, items)
    if any(map(_draws_examples, items)):
        _import_all_modules()


def _import_all_modules() -> None:
    """Hypothesis also draws constants of the loaded modules. With all of them loaded, it draws the same ones whichever
    tests ran before."""
    for module in pkgutil.walk_packages(zoneward.__path__, f"{zoneward.__name__}."):
        if not module.name.endswith(".__main__"):
            importlib.import_module(module.name)


def _draws_examples(item: pytest.Item) -> bool:
    """By Hypothesis, around the test or inside of it."""
    if not isinstance(item, pytest.Function):
        return False
    code = getattr(item.function, "__code__", None)
    return is_hypothesis_test(item.obj) or (code is not None and "given" in code.co_names)
