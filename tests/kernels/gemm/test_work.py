"""How programs share tiles: every step of K of every tile once, and sums found where they were left."""

from collections import defaultdict
from random import Random

import pytest
from heurgen_kernels.gemm.device.work import _place, _segment, _turns


def shared_out(units, programs, whole, splits, items, left):
    """By tile: (first, last, slot, parts, first slot, next slot, step) of each program's turn that has steps."""
    mode = 2 if left else 1 if items > whole else 0
    found = defaultdict(list)
    for program in range(programs):
        for turn in range(_turns(program, programs, items, mode)):
            tile, first, last, *rest = _segment(turn, program, programs, whole, splits, units, left, mode)
            if last > first:
                found[tile].append((first, last, *rest))
    return found


def cases():
    """Whole tiles; whole tiles and parts of the others; streams."""
    random = Random(7)
    for _ in range(100):
        units, programs, tiles = random.randint(1, 120), random.randint(1, 200), random.randint(1, 300)
        left = tiles % programs
        yield tiles, (units, programs, tiles, 1, tiles, 0)
        splits, whole = random.randint(2, max(2, min(units, 16))), random.choice([0, tiles - left])
        if splits <= units:
            yield tiles, (units, programs, whole, splits, whole + (tiles - whole) * splits, 0)
        if left and units * left >= programs:
            yield tiles, (units, programs, tiles - left, 1, tiles - left, left)


def test_every_step_of_every_tile_is_some_programs_once():
    for tiles, case in cases():
        found = shared_out(*case)
        assert sorted(found) == list(range(tiles))
        slots = set()
        for parts in found.values():
            parts.sort()
            edges = [0, *(last for _, last, *_ in parts)]
            assert [first for first, *_ in parts] == edges[:-1]
            assert edges[-1] == case[0]
            ((count, first_slot, next_slot, step),) = {part[3:] for part in parts}
            assert count == len(parts)
            if count > 1:
                wanted = [first_slot, *(next_slot + step * number for number in range(count - 1))]
                assert [part[2] for part in parts] == wanted
                assert not slots & set(wanted)
                slots |= set(wanted)


def test_shares_of_a_stream_differ_by_a_step_at_most():
    found = shared_out(64, 132, 132, 1, 132, 8)
    steps = defaultdict(int)
    for tile in range(132, 140):
        for first, last, slot, *_ in found[tile]:
            steps[slot // 2] += last - first
    assert len(steps) == 132
    assert max(steps.values()) - min(steps.values()) <= 1


@pytest.mark.parametrize(("m_tiles", "n_tiles"), [(1, 5), (8, 3), (9, 4), (37, 11)])
def test_places_are_each_tile_once_a_group_of_rows_after_the_other(m_tiles, n_tiles):
    places = [_place(tile, m_tiles, n_tiles, 8) for tile in range(m_tiles * n_tiles)]
    assert set(places) == {(m, n) for m in range(m_tiles) for n in range(n_tiles)}
    assert [m // 8 for m, _ in places] == sorted(m // 8 for m, _ in places)
