# SPDX-License-Identifier: Apache-2.0
"""The names of AMD's providers, for scripts that are not to be changed: import this once, before sessions are made.

It registers the library, lists the names where scripts look for them, and translates them in both directions, so they also
work with versions of onnxruntime that take no plug-in by name."""
from . import _sessions, register

NAMES = ["MIGraphXExecutionProvider", "ROCMExecutionProvider"]

register()
_sessions.translate(NAMES)
_sessions.offer(NAMES)
