"""No two modules import each other, not even in a function or for types."""

from graphlib import CycleError, TopologicalSorter

import grimp


def test_no_modules_import_each_other() -> None:
    graph = grimp.build_graph("zoneward", cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        raise AssertionError(f"expected no circle of imports, got {' <- '.join(error.args[1])}") from None
