"""How long programs need for Q blocks whose keys are cut."""

from __future__ import annotations

import pytest
from heurgen_kernels.host.makespan import CLOSE, NONE, Blocks, costs_of, fewest_segments, times

CHOICES = (1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32)


@pytest.mark.parametrize(
    ("heads_kv", "longest", "rest", "segments"),
    [
        (8, Blocks(11, 1200, 1200), NONE, 1),  # 88 blocks on 132 processors: in two parts no round less
        (8, Blocks(22, 6300, 6900), NONE, 2),  # 176 blocks in two rounds, 352 halves in three
        (5, Blocks(28, 5900, 6700), NONE, 3),  # 140 blocks
        (
            3,
            Blocks(14, 7700, 9300),
            Blocks(50, 100, 2400),
            2,
        ),  # 42 blocks of which one takes longer than all others
        (2, Blocks(1, 100_000, 100_000), NONE, 32),
        (8, Blocks(400, 100, 6900), NONE, 1),  # many blocks of many lengths end together
    ],
)
def test_as_few_segments_as_end_the_programs_soonest(heads_kv, longest, rest, segments):
    assert fewest_segments(longest, rest, heads_kv / 132, 128, costs_of(128), CHOICES) == segments


def test_no_choice_is_much_better_and_no_smaller_one_as_good():
    for number in (1, 7, 40, 130, 300):
        for near, far in ((1, 500), (900, 1000), (3000, 9000), (20_000, 20_000)):
            for rest in (NONE, Blocks(30, 50, 400), Blocks(9, far / 2, far)):
                given = (Blocks(number, near, far), rest, 4 / 132, 64, costs_of(128))
                found, ends = fewest_segments(*given, CHOICES), times(*given, CHOICES)
                place = CHOICES.index(found)
                assert ends[place] <= CLOSE * min(ends)
                assert all(end > CLOSE * min(ends) for end in ends[:place])


def test_what_is_left_out_takes_longer():
    """More segments than those whose times are told are never the best, and keys shorter than a tile have one."""
    given = (Blocks(60, 5000, 6000), NONE, 8 / 132, 64, costs_of(128))
    assert times(*given, tuple(range(1, 200))) == times(*given, tuple(range(1, 100)))
    assert fewest_segments(Blocks(3, 1, 60), NONE, 1 / 132, 64, costs_of(64), CHOICES) == 1


def test_rest_as_long_as_the_longest_ends_in_rounds_with_it():
    alone = times(Blocks(20, 4000, 5000), NONE, 8 / 132, 128, costs_of(128), CHOICES)
    assert (
        times(Blocks(10, 4000, 5000), Blocks(10, 4000, 5000), 8 / 132, 128, costs_of(128), CHOICES) == alone
    )


def test_narrow_heads_pay_more_keys_for_a_launch():
    costs = [costs_of(size) for size in (64, 128, 256)]
    assert [cost.launch for cost in costs] == sorted((cost.launch for cost in costs), reverse=True)
    assert all(cost.item > 416 and cost.part > 0 for cost in costs)
