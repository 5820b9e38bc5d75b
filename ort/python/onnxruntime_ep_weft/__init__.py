# SPDX-License-Identifier: Apache-2.0
"""Weft as an execution provider of onnxruntime.

    import onnxruntime as ort
    import onnxruntime_ep_weft

    onnxruntime_ep_weft.register()
    session = ort.InferenceSession("model.onnx", providers=["WeftExecutionProvider"])

"MIGraphXExecutionProvider" and "ROCMExecutionProvider" are other names of the same provider. Scripts that use them run
unchanged, with any supported version of onnxruntime, after

    import onnxruntime_ep_weft.classic
"""
import pathlib

__all__ = ["get_library_path", "get_ep_names", "get_ep_name", "register"]
__version__ = "0.1.0"

_NAMES = ["WeftExecutionProvider", "MIGraphXExecutionProvider", "ROCMExecutionProvider", "AMDGPUExecutionProvider"]
_REGISTRATION = "weft"


def get_library_path() -> str:
    """Returns the path of the plug-in library, for `register_execution_provider_library`."""
    return str((pathlib.Path(__file__).parent / "libweft-onnxruntime.so").resolve())


def get_ep_names() -> list[str]:
    """Returns the names of the provider; all of them run Weft."""
    return list(_NAMES)


def get_ep_name() -> str:
    """Returns the name that every supported version of onnxruntime's Python accepts."""
    return _NAMES[0]


def register() -> None:
    """Registers the library with onnxruntime, once for the process. From then on, a session that names Weft and cannot use it
    raises RuntimeError. By default, onnxruntime prints a line and runs such a session on its CPU provider."""
    import onnxruntime

    from . import _sessions

    offered = {device.ep_name for device in onnxruntime.get_ep_devices()}
    native = set(onnxruntime.get_available_providers()) - offered
    if get_ep_name() not in offered:
        onnxruntime.register_execution_provider_library(_REGISTRATION, get_library_path())
    _sessions.watch(_NAMES, get_ep_name())
    # onnxruntime's Python reserves this name for its own MIGraphX provider. Without that provider, it ignores the name.
    _sessions.translate({"MIGraphXExecutionProvider"} - native)
