# SPDX-License-Identifier: Apache-2.0
"""Patches onnxruntime's Python sessions so that they accept all names of the provider."""
import functools

import onnxruntime
from onnxruntime.capi import onnxruntime_inference_collection as collection

_Session = collection.InferenceSession
_own = ""  # the provider's name that every version of onnxruntime's Python accepts
_names = set()  # the provider's names
_translated = set()  # the names that are passed to onnxruntime as `_own`


def _name(provider):
    return provider[0] if isinstance(provider, tuple) else provider


def translate(names):
    """Adds names that select the provider in the patched InferenceSession. The session then reports the requested name."""
    _translated.update(names)


def watch(names, own):
    """Patches InferenceSession to raise if it does not use a requested provider of `names`, or a provider that was added
    by device."""
    global _own
    if _own:
        return
    _own = own
    _names.update(names)
    make = _Session._create_inference_session

    @functools.wraps(make)
    def create(self, providers, provider_options, disabled_optimizers=None):
        asked = [_name(provider) for provider in providers or () if _name(provider) in _names]
        by_device = not providers and self._sess_options is not None and self._sess_options.has_providers()
        if asked or by_device:
            self._enable_fallback = False
        classic = [name for name in asked if name in _translated]
        if classic:
            _make_translated(make, self, classic[0], providers, provider_options, disabled_optimizers)
        else:
            make(self, providers, provider_options, disabled_optimizers)
        missing = [name for name in asked if name not in self._providers and name not in classic[1:]]
        if missing:
            raise RuntimeError(f"the session was asked for {missing[0]}, and has {', '.join(self._providers)} only")

    _Session._create_inference_session = create


def _make_translated(make, session, shown, providers, provider_options, disabled_optimizers):
    providers, options = _pairs(providers, provider_options)
    if _takes_names():
        make(session, [_own if p in _translated else p for p in providers], options, disabled_optimizers)
    else:
        _add_by_device(session, _own, options[providers.index(shown)])
        make(session, None, None, disabled_optimizers)
    session._providers = [shown if p == _own else p for p in session._providers]
    session._provider_options = {shown if p == _own else p: o for p, o in session._provider_options.items()}


def offer(names):
    """Adds the names to the result of onnxruntime.get_available_providers(), which scripts often check first."""
    listed = onnxruntime.get_available_providers

    @functools.wraps(listed)
    def get_available_providers():
        known = listed()
        return [name for name in names if name not in known] + known

    onnxruntime.get_available_providers = get_available_providers


def _pairs(providers, provider_options):
    """Returns the names of the providers, and their options as dicts of strings. The options may be given in pairs with the
    names, or in `provider_options`."""
    if provider_options is None:
        provider_options = [p[1] if isinstance(p, tuple) else {} for p in providers]
    text = [{str(key): str(value) for key, value in options.items()} for options in provider_options]
    return [_name(provider) for provider in providers], text


def _takes_names():
    """True if sessions accept plug-ins by name, as they do from onnxruntime 1.25 on."""
    return tuple(int(part) for part in onnxruntime.__version__.split(".")[:2]) >= (1, 25)


def _add_by_device(session, own, options):
    if session._sess_options is None:
        session._sess_options = onnxruntime.SessionOptions()
    if getattr(session._sess_options, "weft_options", None) == options:
        return  # these session options have the provider from an earlier session
    devices = [device for device in onnxruntime.get_ep_devices() if device.ep_name == own]
    wanted = options.get("device_id", options.get("migraphx_device_id", "0"))
    chosen = [device for device in devices if device.ep_metadata["cuda_device_id"] == wanted] or devices
    session._sess_options.add_provider_for_devices(chosen[:1], options)
    try:
        session._sess_options.weft_options = options
    except AttributeError:
        pass
