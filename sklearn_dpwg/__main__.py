"""The command line, as ``dpwg`` and as ``python -m sklearn_dpwg``."""

import sys

try:
    from sklearn_dpwg.cli.main import main
except ModuleNotFoundError as error:
    if error.name != "click":
        raise
    sys.exit("Error: the command line needs click: pip install 'sklearn-dpwg[cli]'.")

if __name__ == "__main__":
    main(prog_name="python -m sklearn_dpwg")
