# SPDX-License-Identifier: Apache-2.0
"""The names of AMD's providers for unchanged scripts. Import this module once, before the first session is made.

It registers the library and adds the names to the list of available providers. Sessions accept and report the names, also in
versions of onnxruntime that accept no plug-in by name."""
from . import _sessions, register

NAMES = ["MIGraphXExecutionProvider", "ROCMExecutionProvider"]

register()
_sessions.translate(NAMES)
_sessions.offer(NAMES)
