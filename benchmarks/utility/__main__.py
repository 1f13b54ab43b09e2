"""`python -m utility` is `utility.held_out`."""

import importlib

# by its name, as a patch finds it
importlib.import_module("utility.held_out").main()
