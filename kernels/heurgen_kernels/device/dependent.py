"""Programmatic dependent launch: a launch that begins while the one before it runs (CUDA C++ programming guide; Hopper
and later). What it does before `await_former` must need nothing that the one before it writes.
"""

import triton
import triton.language as tl

from .tiles import INTERPRETED


@triton.jit
def let_next_begin():
    """The next launch may begin once all programs of this one have come here. It changes nothing for one that is not
    dependent.
    """
    if not INTERPRETED:
        tl.extra.cuda.gdc_launch_dependents()


@triton.jit
def await_former():
    """Waits until the launch before this one has ended and what it wrote is there. Some program of every launch has to,
    the last one where no other needs it: whoever waits for this launch then waits for both.
    """
    if not INTERPRETED:
        tl.extra.cuda.gdc_wait()
