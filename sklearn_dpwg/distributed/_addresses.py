"""Which connections may carry records."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_address

_SAFE_SCHEMES = ("inproc", "tls", "wss")


def check_addresses(addresses: Iterable[str]) -> None:
    """Refuse connections that anybody on the network may read or write."""
    for address in addresses:
        scheme, _, rest = address.rpartition("://")
        if scheme in _SAFE_SCHEMES or _is_loopback(rest):
            continue
        raise ValueError(
            f"The dask cluster is at {scheme or 'tcp'}://, beyond this machine, where records and "
            "exact sums would travel without encryption and anybody could take part: use tls:// "
            "(distributed's security=), or say insecure=True in sklearn_dpwg.distributed.options "
            "if the network itself keeps everybody else out."
        )


def _is_loopback(rest: str) -> bool:
    """Tell whether host and port are of this machine alone."""
    host = rest.rpartition(":")[0].strip("[]") or rest
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
