"""The kernel: shared memory, barriers, and who does what."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier

from .attend import HALF
from .consume import LOG2E, consume
from .produce import JOB_SIZE, JOBS, produce


@gluon.jit(
    do_not_specialize=["left", "right", "table_stride", "num_seqs", "part_rows", "max_segments", "numbers"]
)
def warp_specialized_kernel(
    q_ptr, k_ptr, v_ptr, k_desc, v_desc, new_k_ptr, new_v_ptr, new_k_desc, new_v_desc, out_ptr, table_ptr, cu_ptr,
    blocks_ptr, lens_ptr, alibi_ptr, sinks_ptr, q_scale_ptr, k_scale_ptr, v_scale_ptr, out_scale_ptr, part_ptr,
    count_ptr, part_rows, scale, softcap, left, right, table_stride, num_seqs, max_segments, numbers,
    G: gl.constexpr, HKV: gl.constexpr, BLOCK_M: gl.constexpr, TILE: gl.constexpr, PAGE: gl.constexpr,
    D: gl.constexpr, D_PAD: gl.constexpr, Q_TOK: gl.constexpr, Q_HEAD: gl.constexpr, O_TOK: gl.constexpr,
    O_HEAD: gl.constexpr, K_PAGE: gl.constexpr, K_TOK: gl.constexpr, K_HEAD: gl.constexpr, V_PAGE: gl.constexpr,
    V_TOK: gl.constexpr, V_HEAD: gl.constexpr, NEW_TOK: gl.constexpr, NEW_HEAD: gl.constexpr, FRESH: gl.constexpr,
    PREFIX: gl.constexpr, TMA: gl.constexpr, TMA_NEW: gl.constexpr, CAUSAL: gl.constexpr, WINDOW: gl.constexpr,
    SOFTCAP: gl.constexpr, ALIBI: gl.constexpr, COMPUTE: gl.constexpr, FP8_MAX: gl.constexpr, STAGES: gl.constexpr,
    CHUNK: gl.constexpr,
):  # fmt: skip
    """Grid: (programs,). CHUNK: tokens of a page that one copy loads. count_ptr: zeros, left as zeros."""
    BLOCK_Q: gl.constexpr = BLOCK_M // G
    SHARED: gl.constexpr = gl.NVMMASharedLayout(128, 16, 2)
    element = q_ptr.dtype.element_ty
    q_buffers = gl.allocate_shared_memory(element, [2, HALF, D], SHARED)
    k_buffers = gl.allocate_shared_memory(element, [STAGES, TILE, D], SHARED)
    v_buffers = gl.allocate_shared_memory(element, [STAGES, TILE, D], SHARED)
    jobs = gl.allocate_shared_memory(gl.int32, [JOBS, JOB_SIZE], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    k_ready = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    k_empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    v_ready = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    v_empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    job_ready = gl.allocate_shared_memory(gl.int64, [JOBS, 1], mbarrier.MBarrierLayout())
    job_empty = gl.allocate_shared_memory(gl.int64, [JOBS, 1], mbarrier.MBarrierLayout())
    for slot in gl.static_range(STAGES):
        mbarrier.init(k_ready.index(slot), count=1)
        mbarrier.init(k_empty.index(slot), count=2)
        mbarrier.init(v_ready.index(slot), count=1)
        mbarrier.init(v_empty.index(slot), count=2)
    for slot in gl.static_range(JOBS):
        mbarrier.init(job_ready.index(slot), count=1)
        mbarrier.init(job_empty.index(slot), count=2)
    barriers = (k_ready, k_empty, v_ready, v_empty)
    job_barriers = (job_ready, job_empty)
    qk_scale = scale * LOG2E
    gl.warp_specialize(
        [
            (consume, (
                q_ptr, out_ptr, sinks_ptr, part_ptr, part_rows, count_ptr, q_buffers, k_buffers, v_buffers, barriers,
                job_barriers, jobs, right, qk_scale, 0, G, BLOCK_Q, TILE, D, STAGES, Q_TOK, Q_HEAD,
                O_TOK, O_HEAD, CAUSAL, FRESH, PREFIX,
            )),
            (consume, (
                q_ptr, out_ptr, sinks_ptr, part_ptr, part_rows, count_ptr, q_buffers, k_buffers, v_buffers, barriers,
                job_barriers, jobs, right, qk_scale, 1, G, BLOCK_Q, TILE, D, STAGES, Q_TOK, Q_HEAD,
                O_TOK, O_HEAD, CAUSAL, FRESH, PREFIX,
            )),
            (produce, (
                k_desc, v_desc, new_k_desc, new_v_desc, k_buffers, v_buffers, barriers, job_barriers, jobs, table_ptr,
                cu_ptr, blocks_ptr, lens_ptr, count_ptr, right, table_stride, num_seqs, max_segments, numbers,
                HKV, BLOCK_Q, PAGE,
                K_PAGE, K_TOK, K_HEAD, NEW_HEAD, CHUNK, TILE, D, STAGES, CAUSAL, FRESH, PREFIX,
            )),
        ],
        [4, 1], [232, 40],  # warps of the second consumer and the producer, and their registers per thread
    )  # fmt: skip
