"""NumPy: arrays and scalars in the plain form of the exact tier.

An array is its dtype, its shape and its bytes in C order; a scalar is its dtype and its bytes.
Only dtypes whose bytes mean the same on every machine are supported: booleans, integers, floats of
2 to 8 bytes, complex numbers of them, dates and time spans, text, bytes, and structures of these.
"""

from __future__ import annotations

import base64
import math
import re
from typing import Any

import numpy as np

# Kind, size and, of dates, unit: as `dtype.str` gives it, and nothing else that NumPy would take.
_DTYPE = re.compile(
    r"\|[bu]1|\|i1|\|S[1-9]\d{0,9}|[<>](?:[iu][248]|f[248]|c8|c16|U[1-9]\d{0,8})"
    r"|[<>][mM]8(?:\[\d{0,9}(?:Y|M|W|D|h|m|s|ms|us|ns|ps|fs|as)\])?"
)
_MAX_DIMENSIONS = 32
_MAX_NESTING = 16


class UnsupportedArray(ValueError):
    """An array can't be stored; the text says why and what to do. Never leaves this package."""


def array_to_plain(array: np.ndarray[Any, Any]) -> list[Any]:
    """Return the plain form of an array.

    Raises:
        UnsupportedArray: Its dtype is not supported, or it has too many dimensions.
    """
    if array.ndim > _MAX_DIMENSIONS:
        raise UnsupportedArray(f"it has more than {_MAX_DIMENSIONS} dimensions. Reshape it")
    dtype = dtype_to_plain(array.dtype)
    data = base64.b64encode(_bytes_of(array)).decode()
    return ["array", dtype, list(array.shape), data]


def array_from_plain(dtype: Any, shape: Any, data: str) -> np.ndarray[Any, Any]:
    """Return a new array; whatever the arguments ask for, nothing larger than them is made.

    Raises:
        ValueError: They are no plain form.
    """
    made = dtype_from_plain(dtype)
    content = base64.b64decode(data, validate=True)
    if type(shape) is not list or len(shape) > _MAX_DIMENSIONS:
        raise ValueError("no shape of an array")
    if any(type(size) is not int or not 0 <= size < 2**62 for size in shape):
        raise ValueError("no shape of an array")
    # Checked before anything is made: math.prod takes no memory, whatever the sizes are.
    if math.prod(shape) * made.itemsize != len(content):
        raise ValueError("an array's bytes do not fit its shape")
    array = np.empty(tuple(shape), made)
    if array.dtype != made:
        raise ValueError("a sub-array that is in no structure")
    if content:
        # Byte by byte, as a copy of a structure leaves what is between its fields as it was.
        array.reshape(-1).view(np.uint8)[:] = np.frombuffer(content, np.uint8)
        _check_values(array)
    return array


def scalar_to_plain(scalar: np.generic) -> list[Any]:
    """Return the plain form of a scalar.

    Raises:
        UnsupportedArray: Its dtype is not supported, or its type is one of NumPy's second names
            for a size, such as ``longlong``.
    """
    # The dtype of these two is their length, and NumPy has none for the empty ones.
    if isinstance(scalar, np.str_):
        text = scalar.encode("utf-32-le", "surrogatepass")
        return ["scalar", "str", base64.b64encode(text).decode()]
    if isinstance(scalar, np.bytes_):
        return ["scalar", "bytes", base64.b64encode(b"".join([scalar])).decode()]
    dtype = dtype_to_plain(scalar.dtype)
    if scalar.dtype.names is None and np.dtype(scalar.dtype.str).type is not type(scalar):
        raise UnsupportedArray(
            f"its size has another name by which it would come back. Use numpy.{scalar.dtype.name}"
        )
    return ["scalar", dtype, base64.b64encode(_bytes_of(np.asarray(scalar))).decode()]


def scalar_from_plain(dtype: Any, data: str) -> np.generic:
    """Return a new scalar.

    Raises:
        ValueError: The arguments are no plain form.
    """
    if dtype == "bytes":
        return np.bytes_(base64.b64decode(data, validate=True))
    if dtype == "str":
        text = base64.b64decode(data, validate=True).decode("utf-32-le", "surrogatepass")
        return np.str_(text)
    scalar: Any = array_from_plain(dtype, [], data)[()]
    made: np.generic = scalar.copy() if isinstance(scalar, np.void) else scalar
    return made


def _bytes_of(array: np.ndarray[Any, Any]) -> bytes:
    """Return the bytes of an array in C order, with zeros between the fields of a structure.

    There may be anything: what the memory held before, or fields that a view leaves out.
    """
    if array.dtype.names is None:
        return array.tobytes()
    clean = np.zeros(array.shape, array.dtype)
    _copy_fields(array, clean)
    return clean.tobytes()


def _copy_fields(source: np.ndarray[Any, Any], target: np.ndarray[Any, Any]) -> None:
    for name in source.dtype.names or ():
        if source[name].dtype.names is None:
            target[name] = source[name]
        else:
            _copy_fields(source[name], target[name])


def dtype_to_plain(dtype: np.dtype[Any]) -> Any:
    """Return a dtype as its text, a structure as a dict, and a sub-array as [base, shape].

    Raises:
        UnsupportedArray: It is not supported.
    """
    if dtype.metadata is not None:
        raise UnsupportedArray("the metadata of its dtype would be lost. Use a dtype without any")
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return [dtype_to_plain(base), list(shape)]
    if dtype.names:
        return _structure_to_plain(dtype)
    if _DTYPE.fullmatch(dtype.str) and dtype.itemsize:
        return dtype.str
    raise UnsupportedArray(
        f"the dtype {dtype.name or dtype.str} is not supported. Use one of booleans, integers, "
        "floats of up to 64 bits, complex numbers of up to 128, dates, text or bytes, or a list"
    )


def _structure_to_plain(dtype: np.dtype[Any]) -> dict[str, Any]:
    assert dtype.names is not None and dtype.fields is not None
    fields = [dtype.fields[name] for name in dtype.names]
    if dtype.type is not np.void or any(len(field) > 2 for field in fields):
        raise UnsupportedArray(
            "a dtype of records or with titles would not come back as it is. Use a plain structure"
        )
    return {
        "names": list(dtype.names),
        "formats": [dtype_to_plain(field[0]) for field in fields],
        "offsets": [field[1] for field in fields],
        "itemsize": dtype.itemsize,
        "aligned": dtype.isalignedstruct,
    }


def dtype_from_plain(plain: Any, depth: int = 0) -> np.dtype[Any]:
    """Return the dtype of its plain form.

    Raises:
        ValueError: It is none, or none that is supported.
    """
    if depth > _MAX_NESTING:
        raise ValueError("a dtype nested too deep")
    if type(plain) is str:
        if not _DTYPE.fullmatch(plain):
            raise ValueError("a dtype that is not supported")
        return np.dtype(plain)
    if type(plain) is list:
        base, shape = plain
        if any(type(size) is not int or size < 0 for size in shape):
            raise ValueError("no shape of an array")
        return np.dtype((dtype_from_plain(base, depth + 1), tuple(shape)))
    names: list[Any] = plain["names"]
    if any(type(name) is not str for name in names):
        raise ValueError("no names of a structure's fields")
    made: Any = {
        "names": names,
        "formats": [dtype_from_plain(part, depth + 1) for part in plain["formats"]],
        "offsets": plain["offsets"],
        "itemsize": plain["itemsize"],
    }
    structure: np.dtype[Any] = np.dtype(made, align=bool(plain["aligned"]))
    return structure


def _check_values(array: np.ndarray[Any, Any]) -> None:
    """Refuse bytes that are no values of their dtype, which NumPy would find much later.

    Raises:
        ValueError: There are such.
    """
    if array.dtype.names is not None:
        for name in array.dtype.names:
            _check_values(array[name])
    elif array.dtype.kind == "b" and np.ascontiguousarray(array).view(np.uint8).max() > 1:
        raise ValueError("a byte that is no boolean")
    elif array.dtype.kind == "U":
        order = array.dtype.byteorder.replace("=", "")
        codes = np.ascontiguousarray(array).reshape(-1).view(f"{order}u4")
        if codes.max() > 0x10FFFF:
            raise ValueError("a number that is no character")
