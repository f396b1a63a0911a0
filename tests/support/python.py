"""Where early patch releases of Python 3.11 do otherwise than later ones, found by trying."""

from __future__ import annotations

import enum
import pickle
from ipaddress import IPv6Address


class _Open(enum.Flag, boundary=enum.KEEP):
    A = 1


_SCOPED = IPv6Address("fe80::1%eth0")

#: Pickling keeps the scope of an IPv6 address.
PICKLES_SCOPES = pickle.loads(pickle.dumps(_SCOPED)) == _SCOPED
#: Pickling names a member by its value, not by its name.
PICKLES_ENUMS_BY_VALUE = _Open.A.__reduce_ex__(5)[0] is _Open
#: A combination of flags without a name is one object, and so equal to itself.
CACHES_UNNAMED_FLAGS = _Open(2) is _Open(2)
