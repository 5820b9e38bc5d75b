# SPDX-License-Identifier: Apache-2.0
"""Speech and notes that the tests synthesise, and the features that models of sound take."""
import ctypes
import functools

import numpy as np

import fetch

RATE = 16000


PIECES = []


@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.c_void_p)
def keep_piece(samples, count, events):
    if samples and count > 0:
        PIECES.append(np.ctypeslib.as_array(samples, (count,)).copy())
    return 0


@functools.cache
def synthesiser():
    """Returns the library of espeak-ng and its sample rate in Hz. The library calls keep_piece, which must outlive
    it."""
    fetch.use("espeakng-loader")
    import espeakng_loader

    library = ctypes.CDLL(espeakng_loader.get_library_path())
    rate = library.espeak_Initialize(1, 0, espeakng_loader.get_data_path().encode(), 0)
    library.espeak_SetSynthCallback(keep_piece)
    return library, rate


@functools.cache
def say(text, voice="en"):
    """Returns `text` as espeak-ng speaks it, f32 at 16 kHz."""
    library, rate = synthesiser()
    PIECES.clear()
    assert library.espeak_SetVoiceByName(voice.encode()) == 0, voice
    data = text.encode()
    library.espeak_Synth(data, ctypes.c_size_t(len(data) + 1), 0, 1, 0, 1, None, None)
    library.espeak_Synchronize()
    return resample(np.concatenate(PIECES).astype(np.float32) / 32768, rate, RATE)


def resample(sound, rate, wanted):
    count = int(len(sound) * wanted / rate)
    return np.interp(np.arange(count) * rate / wanted, np.arange(len(sound)), sound).astype(np.float32)


def silence(seconds, rate=RATE):
    return (np.random.default_rng(int(seconds * 100)).standard_normal(int(seconds * rate)) * 1e-3).astype(np.float32)


def noisy(sound, loudness):
    noise = np.random.default_rng(7).standard_normal(len(sound)).astype(np.float32)
    return np.clip(sound + noise * loudness, -1, 1)


def powers(sound, size, hop, window=np.hanning, count=None):
    """Returns the power spectrum of each frame, [frames, size / 2 + 1]; the first frame begins half a frame before the
    sound."""
    padded = np.pad(sound, size // 2)
    frames = np.lib.stride_tricks.sliding_window_view(padded, size)[::hop][:count]
    return np.abs(np.fft.rfft(frames * window(size + 1)[:-1])) ** 2


def mel_filters(bins, count, rate):
    """Returns triangular filters of equal area on Slaney's mel scale: [bins, count]."""
    def to_hertz(mel):
        return np.where(mel < 15, mel * 200 / 3, 1000 * np.exp((mel - 15) * np.log(6.4) / 27))

    top = 15 + np.log(rate / 2 / 1000) * 27 / np.log(6.4)
    edges = to_hertz(np.linspace(0, top, count + 2))
    at = np.linspace(0, rate / 2, bins)[:, None]
    up, down = (at - edges[:-2]) / (edges[1:-1] - edges[:-2]), (edges[2:] - at) / (edges[2:] - edges[1:-1])
    return np.maximum(0, np.minimum(up, down)) * 2 / (edges[2:] - edges[:-2])


def decibel_mels(sound, rate, size, hop, count):
    """Returns Mel powers in decibels relative to the loudest, scaled as the scorers of Microsoft's challenges expect
    them."""
    mels = powers(sound, size, hop) @ mel_filters(size // 2 + 1, count, rate)
    decibels = 10 * np.log10(np.maximum(mels, 1e-10))
    return ((np.maximum(decibels, decibels.max() - 80) - decibels.max() + 40) / 40).astype(np.float32)
