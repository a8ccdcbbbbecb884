from __future__ import annotations
from collections.abc import Callable
import numpy as np
from sfumato.matrix import FloatArray
from sfumato.methods.response.channels import IntArray
from sfumato.methods.response.problem import Problem

Look = Callable[[FloatArray], tuple[FloatArray, FloatArray]]
"""From x to the ratios of the cells, [cells], and the gradients of their logarithms, [cells, n]."""


def few(given: Problem, cells: IntArray) -> Look:
    free = list(given.free)

    def look(x: FloatArray) -> tuple[FloatArray, FloatArray]:
        point = given.at(x)
        return given.ratio(point)[cells], point.gradient(cells)[:, free]

    return look
