"""Which part of a product a program computes: plain arithmetic, for Triton's and Gluon's kernels alike.

A tile of the output is `units` steps of K. Items, a tile or one of `splits` equal parts of its K, are dealt in turn to
the programs. Of the first `whole` items each is one turn of a program; the tiles behind them are too few to go round:
their units, one after the other, are shared evenly, so that a program has the end of one tile and the start of the
next ("stream K", Osama et al. 2023). Those come first, since another program waits for what they leave.
"""

from __future__ import annotations

import triton
import triton.language as tl
from triton.experimental import gluon


def _turns(program, programs, whole, units, left):
    """(turns of a program, of which so many are parts of shared tiles). left: shared tiles."""
    shared = 0
    if left > 0:
        shared = 2
    return shared + (whole - program + programs - 1) // programs, shared


def _segment(turn, shared, program, programs, whole, splits, units, left):
    """(tile, first unit, end, slot, parts, first slot, next slot, step) of a program's turn; it may have no units.

    A tile that has several parts: each leaves its sums in a slot of the scratch, and they lie in `first slot`, then in
    `next slot` and so on, `step` apart.
    """
    if turn < shared:
        per = units * left // programs
        more = units * left - per * programs
        start = program * per + (program if program < more else more)
        end = start + per + (1 if program < more else 0)
        inside = start // units + turn
        low = inside * units
        high = low + units - 1
        first = start if turn == 0 else low
        last = low + units if low + units < end else end
        # the programs whose shares hold the tile's first and last unit
        edge = more * (per + 1)
        opens = low // (per + 1) if low < edge else more + (low - edge) // per
        closes = high // (per + 1) if high < edge else more + (high - edge) // per
        opening = opens * per + (opens if opens < more else more)
        tile = whole // splits + inside
        first -= low
        last = last - low if last - low > first else first
        slot = 2 * program + turn
        parts = closes - opens + 1
        first_slot = 2 * opens + (1 if opening // units < inside else 0)
        next_slot = 2 * opens + 2
        step = 2
    else:
        slot = program + (turn - shared) * programs
        tile = slot // splits
        part = slot - tile * splits
        first = units * part // splits
        last = units * (part + 1) // splits
        parts = splits
        first_slot = tile * splits
        next_slot = first_slot + 1
        step = 1
    return tile, first, last, slot, parts, first_slot, next_slot, step


def _place(tile, m_tiles, n_tiles, GROUP: tl.constexpr):
    """(row of tiles, column of tiles): GROUP rows are filled before the next, so that programs share what they read."""
    per = GROUP * n_tiles
    first = tile // per * GROUP
    rows = m_tiles - first if m_tiles - first < GROUP else GROUP
    inside = tile % per
    return first + inside % rows, inside // rows


turns = triton.jit(_turns)
segment = triton.jit(_segment)
place = triton.jit(_place)
gluon_turns = gluon.jit(_turns)
gluon_segment = gluon.jit(_segment)
gluon_place = gluon.jit(_place)
