"""No two modules import each other, not even in a function or for types."""

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"


def modules() -> dict[str, ast.Module]:
    return {
        ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__"): ast.parse(path.read_bytes())
        for path in SOURCE.rglob("*.py")
    }


def imported_names(tree: ast.Module) -> Iterator[str]:
    """Everything that may be a module, wherever the statement is."""
    for statement in ast.walk(tree):
        if isinstance(statement, ast.Import):
            yield from (alias.name for alias in statement.names)
        elif isinstance(statement, ast.ImportFrom) and statement.module is not None:
            yield statement.module
            yield from (f"{statement.module}.{alias.name}" for alias in statement.names)


def test_no_modules_import_each_other() -> None:
    trees = modules()
    imports = {name: (set(imported_names(tree)) & trees.keys()) - {name} for name, tree in trees.items()}
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        raise AssertionError(f"expected no circle of imports, got {' <- '.join(error.args[1])}") from None
