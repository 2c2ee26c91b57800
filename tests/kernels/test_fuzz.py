"""Random calls in Triton's interpreter; on a GPU: `make gpu-fuzz`."""

from __future__ import annotations

import pytest

from tests.kernels import batches
from tests.kernels.fuzz import drawn, run


@pytest.mark.parametrize("seed", range(10))
def test_a_call_is_right(device: str, seed: int) -> None:
    run(drawn(seed, small=True), device)


def test_a_wrong_result_is_found(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    attention = next(seed for seed in range(99) if drawn(seed, small=True)["call"] == "attention")
    monkeypatch.setattr(batches, "LIMITS", dict.fromkeys(batches.LIMITS, 0.0))
    with pytest.raises(AssertionError, match="relative error"):
        run(drawn(attention, small=True), device)


def test_a_seed_is_one_call() -> None:
    assert drawn(5, small=False) == drawn(5, small=False)
    assert len({str(drawn(seed, small=False)) for seed in range(50)}) == 50
