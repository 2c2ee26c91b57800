"""Which part of a product a program computes: plain arithmetic, for Triton's and Gluon's kernels alike.

A tile of the output is `units` steps of K. Items are dealt in turn to the programs: the first `whole` are a tile each,
the ones behind them one of `splits` equal parts of a tile, so that tiles that would not go round keep all busy. Or
(STREAM) the steps of those tiles, one after the other, are shared evenly: a program has the end of one tile and the
start of the next ("stream K", Osama et al. 2023), first of all its turns. What programs read at a time then lies far
apart, so it is for products of one row of tiles, whose programs share nothing but x.
"""

from __future__ import annotations

import triton
import triton.language as tl
from triton.experimental import gluon

# How tiles are shared: none is; parts of tiles; an even stream.
WHOLE, PARTS, STREAM = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2)
# Numbers of Triton's kernels that have no kernel of their own compiled for a value, by name.
NUMBERS = (
    "rows", "width", "n_tiles", "units", "whole", "left", "splits", "items", "gate", "scale_stride", "scale_step",
)  # fmt: skip


def _turns(program, programs, items, MODE: tl.constexpr):
    """Turns of a program: its items, and in a stream two parts before them."""
    count = (items - program + programs - 1) // programs
    if MODE == STREAM:
        count += 2
    return count


def _segment(turn, program, programs, whole, splits, units, left, MODE: tl.constexpr):
    """(tile, first unit, end, slot, parts, first slot, next slot, step) of a program's turn; it may have no units.

    A tile that has several parts: each leaves its sums in a slot of the scratch, and they lie in `first slot`, then in
    `next slot` and so on, `step` apart. left: tiles of a stream.
    """
    tile = program + turn * programs
    first = 0
    last = units
    slot = 0
    parts = 1
    first_slot = 0
    next_slot = 0
    step = 1
    if MODE == PARTS:
        tail = tile - whole
        if tail >= 0:
            tile = whole + tail // splits
            part = tail - (tile - whole) * splits
            first = units * part // splits
            last = units * (part + 1) // splits
            slot = tail
            parts = splits
            first_slot = tail - part
            next_slot = first_slot + 1
    if MODE == STREAM:
        tile -= 2 * programs
        if turn < 2:
            per = units * left // programs
            more = units * left - per * programs
            start = program * per + (program if program < more else more)
            end = start + per + (1 if program < more else 0)
            inside = start // units + turn
            low = inside * units
            high = low + units - 1
            begin = start if turn == 0 else low
            stop = low + units if low + units < end else end
            # the programs whose shares hold the tile's first and last unit
            edge = more * (per + 1)
            opens = low // (per + 1) if low < edge else more + (low - edge) // per
            closes = high // (per + 1) if high < edge else more + (high - edge) // per
            opening = opens * per + (opens if opens < more else more)
            tile = whole + inside
            first = begin - low
            last = stop - low if stop > begin else first
            slot = 2 * program + turn
            parts = closes - opens + 1
            first_slot = 2 * opens + (1 if opening // units < inside else 0)
            next_slot = 2 * opens + 2
            step = 2
    return tile, first, last, slot, parts, first_slot, next_slot, step


def _place(tile, m_tiles, n_tiles, GROUP: tl.constexpr):
    """(row of tiles, column of tiles): GROUP rows are filled before the next, so that programs share what they read."""
    m = 0
    n = tile
    if m_tiles != 1:  # known when the kernel is compiled
        per = GROUP * n_tiles
        above = tile // per * GROUP
        rows = m_tiles - above if m_tiles - above < GROUP else GROUP
        inside = tile % per
        m = above + inside % rows
        n = inside // rows
    return m, n


turns = triton.jit(_turns)
segment = triton.jit(_segment)
place = triton.jit(_place)
gluon_turns = gluon.jit(_turns)
gluon_segment = gluon.jit(_segment)
gluon_place = gluon.jit(_place)
