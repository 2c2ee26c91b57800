"""What Triton 3.6 to 3.9 spell differently in Gluon, under one name each: functions of Gluon itself, so that a version
compiles what its own spelling would give.
"""

from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import tma

_Buffers = gl.shared_memory_descriptor

# (buffers, dtype, shape, layout): the same memory as another array. With an underscore up to 3.8.
reinterpret = _Buffers.reinterpret if hasattr(_Buffers, "reinterpret") else _Buffers._reinterpret
# (): the warps of a partition wait for each other. `thread_barrier` in 3.6.
thread_barrier = gl.thread_barrier if hasattr(gl, "thread_barrier") else gl.barrier
# (descriptor, coordinates, barrier, shared memory), (descriptor, coordinates, shared memory): copies by the TMA unit.
# 3.9 keeps functions of the former names that raise.
async_load = tma.async_load if hasattr(tma, "async_load") else tma.async_copy_global_to_shared
async_store = tma.async_store if hasattr(tma, "async_store") else tma.async_copy_shared_to_global
