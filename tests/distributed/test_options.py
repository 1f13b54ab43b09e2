"""Which cluster is used, and which connections are refused."""

from __future__ import annotations

import subprocess
import sys

import pytest
from distributed import Client

from sklearn_dpwg.data.distributed import options
from sklearn_dpwg.data.distributed.cluster import check_addresses
from sklearn_dpwg.data.distributed.dask_engine import DaskEngine, current_options, engine


def test_options_nest_and_end():
    assert current_options().pass_timeout == 600.0
    with options(pass_timeout=5):
        assert current_options().pass_timeout == 5.0
        with options(insecure=True):
            assert current_options().insecure
            assert current_options().pass_timeout == 600.0
        assert not current_options().insecure
    assert current_options().pass_timeout == 600.0


def test_a_client_is_told_without_importing_distributed():
    code = (
        "import sys\n"
        "from sklearn_dpwg.data.distributed.dask_engine import options\n"
        "try:\n"
        "    options(client='tcp://localhost:8786').__enter__()\n"
        "except TypeError:\n"
        "    raise SystemExit('distributed' in sys.modules)\n"
        "raise SystemExit(2)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_closed_client_is_refused(threads):
    client = Client(threads.cluster, set_as_default=False)
    client.close()
    with options(client=client), pytest.raises(ValueError, match="got a closed one: start another"):
        engine()


def test_the_client_is_the_one_named_or_the_current(threads):
    assert isinstance(engine(), DaskEngine)
    with options(client=threads, pass_timeout=7.0):
        assert "pass_timeout=7.0" in repr(engine())


SAFE = (
    "inproc://10.0.0.5/17/1", "tls://10.0.0.5:8786", "wss://cluster:443", "tcp://127.0.0.1:1",
    "tcp://[::1]:8786", "tcp://localhost:8786", "ws://127.0.0.2:80/path", "127.0.0.1:8786",
)  # fmt: skip
OTHERS = (
    "tcp://10.0.0.5:8786", "tcp://scheduler:8786", "tcp://[fe80::1]:8786", "ucx://10.0.0.5:1",
    "ws://cluster:80", "10.0.0.5:8786", "tcp://0.0.0.0:8786",
)  # fmt: skip


def test_addresses_beyond_this_machine_are_refused_unless_they_are_safe():
    check_addresses(SAFE)
    for address in OTHERS:
        with pytest.raises(ValueError, match=r"beyond this machine.*insecure=True"):
            check_addresses([*SAFE, address])
