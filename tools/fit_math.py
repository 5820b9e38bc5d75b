#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fits the polynomials of src/kernels/math.h and prints them, lowest power first.

Each fit minimises, for a function g and a weight w, the largest |p(x) - g(x)| * w(x) of a polynomial p on an interval
(Remez exchange in 40 digits).
Needs mpmath. Usage: tools/fit_math.py [name ...]
"""
import sys

from mpmath import asin, atan, cos, erf, erfc, exp, expm1, log, log1p, lu_solve, matrix, mp, mpf, pi, sin, sqrt, tanh

mp.dps = 40


def remez(g, w, low, high, degree, rounds=8, grid=1200):
    """Returns the coefficients of the polynomial for g, and the largest error weighted by w."""
    count = degree + 2
    low, high = mpf(low), mpf(high)
    nodes = [(low + high) / 2 - (high - low) / 2 * cos(pi * i / (count - 1)) for i in range(count)]
    points = [(low + high) / 2 - (high - low) / 2 * cos(pi * i / grid) for i in range(grid + 1)]
    values = [(x, g(x), w(x)) for x in points]
    for _ in range(rounds):
        rows = matrix(count, count)
        right = matrix(count, 1)
        for i, x in enumerate(nodes):
            for j in range(degree + 1):
                rows[i, j] = x**j
            rows[i, degree + 1] = (-1) ** i / w(x)
            right[i] = g(x)
        solved = lu_solve(rows, right)
        coefs = [solved[j] for j in range(degree + 1)]
        errors = [(x, (horner(coefs, x) - gx) * wx) for x, gx, wx in values]
        nodes = extrema(errors, count)
    return coefs, max(abs(e) for _, e in errors)


def horner(coefs, x):
    total = mpf(0)
    for c in reversed(coefs):
        total = total * x + c
    return total


def extrema(errors, count):
    """Returns `count` neighbouring extreme points with the largest errors; each run of errors of equal sign has one
    such point."""
    best = []
    for x, e in errors:
        if best and (best[-1][1] > 0) == (e > 0):
            if abs(e) > abs(best[-1][1]):
                best[-1] = (x, e)
        else:
            best.append((x, e))
    while len(best) > count:
        best.pop(0 if abs(best[0][1]) < abs(best[-1][1]) else -1)
    if len(best) < count:
        raise SystemExit("the exchange lost a node: the grid is too coarse or the degree too high")
    return [x for x, _ in best]


def away_from_zero(f, limit, near):
    """Returns f, replaced by the value `limit` for x so close to 0 that computing f cancels digits."""
    return lambda x: limit if abs(x) < near else f(x)


one = lambda x: mpf(1)
tiny = mpf(10) ** -9
half_log2 = log(2) / 2
root = sqrt(mpf(2))

exp_tail = away_from_zero(lambda x: (expm1(x) - x) / x**2, mpf(1) / 2, tiny)
log_tail = away_from_zero(lambda x: (log1p(x) - x + x * x / 2) / x**3, mpf(1) / 3, tiny)
atanh_tail = away_from_zero(lambda z: (log((1 + sqrt(z)) / (1 - sqrt(z))) / sqrt(z) - 2) / z, mpf(2) / 3, tiny)
sin_tail = away_from_zero(lambda z: (sin(sqrt(z)) / sqrt(z) - 1) / z, -mpf(1) / 6, tiny)
cos_tail = away_from_zero(lambda z: (cos(sqrt(z)) - 1 + z / 2) / z**2, mpf(1) / 24, mpf(10) ** -7)
atan_tail = away_from_zero(lambda z: (atan(sqrt(z)) / sqrt(z) - 1) / z, -mpf(1) / 3, tiny)
asin_tail = away_from_zero(lambda z: (asin(sqrt(z)) / sqrt(z) - 1) / z, mpf(1) / 6, tiny)
tanh_tail = away_from_zero(lambda z: (tanh(sqrt(z)) / sqrt(z) - 1) / z, -mpf(1) / 3, tiny)
erf_slope = away_from_zero(lambda z: erf(sqrt(z)) / sqrt(z) - 1, 2 / sqrt(pi) - 1, mpf(10) ** -20)
tan_pi_8 = root - 1
scaled_erfc = lambda t: erfc(2 * (1 + t) / (1 - t)) * exp((2 * (1 + t) / (1 - t)) ** 2)
log_tail_share = lambda a: log(erfc(a / root) / 2) / log(2)
tail_weight = lambda a: log(2) * max(min(1, erfc(a / root) * 100), mpf("0.01"))
exp2_slope = away_from_zero(lambda x: (mpf(2) ** x - 1) / x, log(2), tiny)
erf_weight = lambda a: erfc(a) / erf(a)

# name: function, weight, interval, degree for f32, degree for f64 (None: not used there)
fits = {
    "exp": (exp_tail, lambda x: (x * x + mpf("1e-3")) / exp(x), -half_log2, half_log2, 4, 9),
    "exp2": (exp2_slope, lambda x: (abs(x) + tiny) / mpf(2) ** x, -mpf(1) / 2, mpf(1) / 2, 4, None),
    "sigmoid": (exp2_slope, lambda x: (abs(x) + tiny) / mpf(2) ** x, -mpf(1) / 2, mpf(1) / 2, 5, None),
    "gelu": (log_tail_share, tail_weight, 0, mpf("5.5"), 10, None),
    "log": (log_tail, lambda x: abs(x) ** 2 + mpf("1e-3"), 1 / root - 1, root - 1, 7, None),
    "atanh": (atanh_tail, lambda z: z + mpf("1e-3"), 0, ((root - 1) / (root + 1)) ** 2, None, 6),
    "sin": (sin_tail, lambda z: z + mpf("1e-3"), 0, (pi / 4) ** 2, 2, 5),
    "cos": (cos_tail, lambda z: z * z + mpf("1e-3"), 0, (pi / 4) ** 2, 2, 5),
    "atan": (atan_tail, lambda z: z + mpf("1e-3"), 0, tan_pi_8**2, 4, 10),
    "asin": (asin_tail, lambda z: z + mpf("1e-3"), 0, mpf(1) / 4, 4, 13),
    "tanh": (tanh_tail, lambda z: z + mpf("1e-3"), 0, mpf("0.625") ** 2, 4, None),
    "erf": (erf_slope, one, 0, 1, 6, 13),
    "erf_log": (lambda a: log(erfc(a)), erf_weight, mpf("0.98"), 4, 8, None),
    "erf_tail": (scaled_erfc, one, -mpf(1) / 3, mpf(1) / 2, None, 17),
}


def main():
    wanted = sys.argv[1:] or list(fits)
    for name in wanted:
        g, w, low, high, single, double = fits[name]
        for suffix, degree, digits in (("f32", single, 10), ("f64", double, 19)):
            if degree is None:
                continue
            coefs, error = remez(g, w, low, high, degree)
            print(f"{name} {suffix}: largest weighted error 2^{float(log(error) / log(2)):.1f}")
            print("  " + ", ".join(mp.nstr(c, digits) for c in coefs))


if __name__ == "__main__":
    main()
