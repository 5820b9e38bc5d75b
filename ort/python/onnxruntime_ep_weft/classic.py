# SPDX-License-Identifier: Apache-2.0
"""The names of AMD's providers, for scripts that are not to be changed: import this once, before sessions are made.

onnxruntime's Python module keeps "MIGraphXExecutionProvider" for a provider of its own that its wheels are built without,
and drops it without a word. So the name is translated on the way in, and back where the session shows its providers.
"""
from . import _sessions, get_ep_name, register

NAMES = ["MIGraphXExecutionProvider", "ROCMExecutionProvider"]

register()
_sessions.rename(NAMES, get_ep_name())
_sessions.offer(NAMES)
