"""Where the program of an archive starts: ``zoneward``, with its interpreter and its libraries beside it.

PyInstaller makes this file the program's main module.
"""

import os
import runpy
import sys

# The program before this one points the loader to the libraries of the archive. What Zoneward starts (a login plugin of
# the kubeconfig, nft) has its own.
_before = os.environ.pop("LD_LIBRARY_PATH_ORIG", None)
if _before is None:
    os.environ.pop("LD_LIBRARY_PATH", None)
else:
    os.environ["LD_LIBRARY_PATH"] = _before

if sys.argv[1:2] == ["-m"]:
    # As a Python would: the node proxy starts another module in a second process.
    sys.argv = sys.argv[2:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
elif os.path.basename(sys.argv[0]).startswith("kubectl_complete-"):  # noqa: PTH119 -- starts fast
    from zoneward.cli.kubectl_completion import main as complete

    complete()
else:
    from zoneward.cli.main import main

    main()
