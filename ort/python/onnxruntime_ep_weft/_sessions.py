# SPDX-License-Identifier: Apache-2.0
"""What onnxruntime's Python sessions are told beyond their own interface."""
import functools

import onnxruntime
from onnxruntime.capi import onnxruntime_inference_collection as collection

_Session = collection.InferenceSession
_forbids_fallback = False


def _name(provider):
    return provider[0] if isinstance(provider, tuple) else provider


def forbid_fallback(names):
    """A session that names one of these providers raises when it cannot have it; so does one that was given providers by
    device, whichever they are."""
    global _forbids_fallback
    if _forbids_fallback:
        return
    _forbids_fallback = True
    make = _Session._create_inference_session

    @functools.wraps(make)
    def create(self, providers, provider_options, disabled_optimizers=None):
        by_device = not providers and self._sess_options is not None and self._sess_options.has_providers()
        if by_device or any(_name(provider) in names for provider in providers or ()):
            self._enable_fallback = False
        make(self, providers, provider_options, disabled_optimizers)

    _Session._create_inference_session = create


def rename(classic, own):
    """Sessions that ask for one of the names in `classic` get the provider `own`, and see the name that they know."""
    make = _Session._create_inference_session

    @functools.wraps(make)
    def create(self, providers, provider_options, disabled_optimizers=None):
        asked = [_name(provider) for provider in providers or () if _name(provider) in classic]
        if not asked:
            return make(self, providers, provider_options, disabled_optimizers)
        self._enable_fallback = False
        providers, options = _pairs(providers, provider_options)
        if _takes_names():
            make(self, [own if p in classic else p for p in providers], options, disabled_optimizers)
        else:
            _add_by_device(self, own, options[providers.index(asked[0])])
            make(self, None, None, disabled_optimizers)
        self._providers = [asked[0] if p == own else p for p in self._providers]
        self._provider_options = {asked[0] if p == own else p: o for p, o in self._provider_options.items()}

    _Session._create_inference_session = create


def offer(names):
    """Scripts look here before they ask for a provider."""
    listed = onnxruntime.get_available_providers

    @functools.wraps(listed)
    def get_available_providers():
        known = listed()
        return [name for name in names if name not in known] + known

    onnxruntime.get_available_providers = get_available_providers


def _pairs(providers, provider_options):
    """Both spellings of options as a list of names and a list of dicts of text."""
    if provider_options is None:
        provider_options = [p[1] if isinstance(p, tuple) else {} for p in providers]
    text = [{str(key): str(value) for key, value in options.items()} for options in provider_options]
    return [_name(provider) for provider in providers], text


def _takes_names():
    """Plug-ins by name: from onnxruntime 1.25 on."""
    return tuple(int(part) for part in onnxruntime.__version__.split(".")[:2]) >= (1, 25)


def _add_by_device(session, own, options):
    if session._sess_options is None:
        session._sess_options = onnxruntime.SessionOptions()
    if getattr(session._sess_options, "weft_options", None) == options:
        return  # these session options made a session before
    devices = [device for device in onnxruntime.get_ep_devices() if device.ep_name == own]
    wanted = options.get("device_id", options.get("migraphx_device_id", "0"))
    chosen = [device for device in devices if device.ep_metadata["cuda_device_id"] == wanted] or devices
    session._sess_options.add_provider_for_devices(chosen[:1], options)
    try:
        session._sess_options.weft_options = options
    except AttributeError:
        pass
