# SPDX-License-Identifier: Apache-2.0
"""libmigraphx_c.so.3 by ctypes: calls that raise, and handles that destroy themselves.

Libraries that are loaded later and need libmigraphx_c.so.3, such as the provider of the onnxruntime-migraphx wheel, use
the copy that is loaded here. They also need HIP, so this module loads it: AMD's library if present, else Weft's facade."""
import ctypes
import os
import pathlib

HIP = "libamdhip64.so.7"


def _folders():
    """Returns the folders that may hold the library: this one, and `lib` in each of five parent folders, as in a build."""
    here = pathlib.Path(__file__).resolve().parent
    return [here, *(parent / "lib" for parent in here.parents[:5])]


def _open():
    for folder in _folders():
        if (folder / "libmigraphx_c.so.3").exists():
            return folder, ctypes.CDLL(str(folder / "libmigraphx_c.so.3"), ctypes.RTLD_GLOBAL)
    return None, ctypes.CDLL("libmigraphx_c.so.3", ctypes.RTLD_GLOBAL)


def _open_hip(folder):
    try:
        return ctypes.CDLL(HIP, ctypes.RTLD_GLOBAL)
    except OSError:
        facade = (folder or pathlib.Path()) / "hip-facade" / HIP
        return ctypes.CDLL(str(facade), ctypes.RTLD_GLOBAL) if facade.exists() else None


_folder, _library = _open()
hip = _open_hip(_folder)
_libc = ctypes.CDLL(None)
_library.weft_migraphx_error.restype = _library.weft_migraphx_operator.restype = ctypes.c_char_p


def argument_of(value):
    """Converts a Python value for C: handles to addresses, integers to 64 bits, text and paths to bytes."""
    if isinstance(value, Handle):
        return ctypes.c_void_p(value.address)
    if isinstance(value, bool):
        return ctypes.c_bool(value)
    if isinstance(value, int):
        return ctypes.c_int64(value)
    if isinstance(value, (str, os.PathLike)):
        return os.fsencode(value)
    return value


def _call(function, arguments):
    """Calls a function and raises if it fails. The library does not print this error; it prints errors of other callers in
    the process, such as onnxruntime's provider."""
    _library.weft_migraphx_print_errors(False)
    status = getattr(_library, function)(*map(argument_of, arguments))
    _library.weft_migraphx_print_errors(True)
    if status != 0:
        raise RuntimeError(_library.weft_migraphx_error().decode())


def call(name, *arguments):
    """Calls migraphx_NAME; raises RuntimeError with the reason when it fails."""
    _call("migraphx_" + name, arguments)


def call_weft(name, *arguments):
    """Calls weft_migraphx_NAME; raises RuntimeError with the reason when it fails."""
    _call("weft_migraphx_" + name, arguments)


def text_by_weft(name, *arguments):
    text = ctypes.c_void_p()
    call_weft(name, ctypes.byref(text), *arguments)
    try:
        return ctypes.string_at(text.value).decode()
    finally:
        _libc.free(text)


def operators_by_weft():
    names, index = [], 0
    while name := _library.weft_migraphx_operator(ctypes.c_size_t(index)):
        names.append(name.decode())
        index += 1
    return names


def get(kind, name, *arguments):
    """Calls migraphx_NAME and returns the result that it writes through its first parameter."""
    result = kind()
    call(name, ctypes.byref(result), *arguments)
    return result.value


def made(name, *arguments):
    """Calls migraphx_NAME and returns the address of the handle that it makes."""
    return get(ctypes.c_void_p, name, *arguments)


def size_list(values):
    return (ctypes.c_size_t * len(values))(*values), len(values)


class Handle:
    """An object of the C interface. If it is part of another object, `owner` is the handle of that object and is kept alive.
    Without an owner, the object is destroyed with this handle."""

    kind = ""

    def __init__(self, address, owner=None):
        self.address, self.owner = address, owner

    def __del__(self):
        is_owned = getattr(self, "address", None) and self.owner is None and self.kind
        if is_owned and _library:  # Python sets _library to None when it ends
            getattr(_library, f"migraphx_{self.kind}_destroy")(ctypes.c_void_p(self.address))
