# SPDX-License-Identifier: Apache-2.0
"""Pictures that the tests paint, and the steps around text detection and recognition (OCR)."""
import numpy as np

import fetch


def painter():
    fetch.use("pillow")
    from PIL import Image, ImageDraw, ImageFont

    return Image, ImageDraw, ImageFont


def photograph(name):
    """Returns a photograph from scikit-image, [height, width, 3] of bytes."""
    Image, _, _ = painter()
    return np.asarray(Image.open(fetch.package("scikit-image") / "skimage/data" / name).convert("RGB"))


def resize(picture, width, height):
    Image, _, _ = painter()
    return np.asarray(Image.fromarray(picture).resize((width, height), Image.BILINEAR))


def page(width, height, lines, size=28, left=20, step=None):
    """Draws dark text on white; returns the picture, and the box of each line (left, top, right, bottom)."""
    Image, ImageDraw, ImageFont = painter()
    picture = Image.new("RGB", (width, height), "white")
    draw, font, boxes = ImageDraw.Draw(picture), ImageFont.load_default(size), []
    for i, text in enumerate(lines):
        at = (left, 20 + i * (step or 2 * size))
        draw.text(at, text, fill=(20, 20, 20), font=font)
        boxes.append(draw.textbbox(at, text, font=font))
    return np.asarray(picture), boxes


def planes(picture, mean=0.5, deviation=0.5):
    """Returns the picture as [1, 3, height, width], with the colours in the order blue, green, red, as OpenCV reads
    them."""
    scaled = (picture[..., ::-1] / 255.0 - mean) / deviation
    return np.ascontiguousarray(scaled.transpose(2, 0, 1)[None], np.float32)


IMAGENET = {"mean": np.array([0.485, 0.456, 0.406]), "deviation": np.array([0.229, 0.224, 0.225])}


def runs(marked):
    """Returns the runs of true elements in a row of booleans: (first, one after the last)."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], marked.astype(np.int8), [0]])))
    return [(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2])]


def lines_of(likelihood):
    """Returns the boxes of the lines of text that a detector marks, from top to bottom."""
    marked = likelihood > 0.3
    found = []
    for top, bottom in runs(marked.any(1)):
        columns = np.flatnonzero(marked[top:bottom].any(0))
        if bottom - top > 3:
            found.append((int(columns[0]), top, int(columns[-1]) + 1, bottom))
    return found


def grown(box, part):
    """Grows a box by this part of its height on each side, because a detector marks only the middle of a line."""
    more = int((box[3] - box[1]) * part)
    return max(box[0] - more, 0), max(box[1] - more, 0), box[2] + more, box[3] + more


def cut(picture, box):
    left, top, right, bottom = box
    return picture[top:bottom, left:right]


def scaled_to_height(picture, height):
    return resize(picture, max(8, round(picture.shape[1] * height / picture.shape[0])), height)


def collapsed(classes):
    """Decodes CTC: repeated classes are merged, and class 0 is dropped."""
    classes = np.asarray(classes)
    kept = np.concatenate([[True], classes[1:] != classes[:-1]]) & (classes != 0)
    return [int(c) for c in classes[kept]]
