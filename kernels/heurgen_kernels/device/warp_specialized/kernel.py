"""The kernel: shared memory, barriers, and who does what."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier

from .attend import HALF
from .consume import LOG2E, consume
from .items import let_next_begin
from .produce import JOB_SIZE, JOBS, produce


@gluon.jit(
    do_not_specialize=[
        "left", "right", "table_stride", "num_seqs", "part_rows", "max_segments", "numbers", "programs",
    ]
)  # fmt: skip
def warp_specialized_kernel(
    tensors, k_desc, v_desc, new_k_desc, new_v_desc, part_rows, scale, softcap, left, right, table_stride, num_seqs,
    max_segments, numbers, programs,
    sizes: gl.constexpr, strides: gl.constexpr, features: gl.constexpr, BLOCK_M: gl.constexpr, TILE: gl.constexpr,
    STAGES: gl.constexpr, CHUNK: gl.constexpr, HEADS: gl.constexpr,
):  # fmt: skip
    """Grid: (programs that share the items,). max_segments, programs: see `cut_into`; the scratch has room for
    max_segments of each block. CHUNK: tokens of a page that one copy loads. HEADS: of a KV head's, in a Q block.
    """
    G: gl.constexpr = HEADS  # constexprs of their own: a partition takes no plain numbers
    REPEAT: gl.constexpr = sizes.G // HEADS
    HKV: gl.constexpr = sizes.HKV * REPEAT
    PAGE: gl.constexpr = sizes.PAGE
    D: gl.constexpr = sizes.D
    D_PAD: gl.constexpr = sizes.D_PAD
    Q_TOK: gl.constexpr = strides.Q_TOK
    Q_HEAD: gl.constexpr = strides.Q_HEAD
    O_TOK: gl.constexpr = strides.O_TOK
    O_HEAD: gl.constexpr = strides.O_HEAD
    K_PAGE: gl.constexpr = strides.K_PAGE
    K_TOK: gl.constexpr = strides.K_TOK
    K_HEAD: gl.constexpr = strides.K_HEAD
    NEW_HEAD: gl.constexpr = strides.NEW_HEAD
    CAUSAL: gl.constexpr = features.CAUSAL
    WINDOW: gl.constexpr = features.WINDOW
    SOFTCAP: gl.constexpr = features.SOFTCAP
    FRESH: gl.constexpr = features.FRESH
    PREFIX: gl.constexpr = features.PREFIX
    ABOVE: gl.constexpr = features.ABOVE
    CUT: gl.constexpr = tensors.part is not None
    BLOCK_Q: gl.constexpr = BLOCK_M // G
    CONSUMERS: gl.constexpr = BLOCK_M // HALF
    SHARED: gl.constexpr = gl.NVMMASharedLayout(128, 16, 2)
    element = tensors.q.dtype.element_ty
    q_buffers = gl.allocate_shared_memory(element, [CONSUMERS, HALF, D_PAD], SHARED)
    k_buffers = gl.allocate_shared_memory(element, [STAGES, TILE, D_PAD], SHARED)
    v_buffers = gl.allocate_shared_memory(element, [STAGES, TILE, D_PAD], SHARED)
    jobs = gl.allocate_shared_memory(gl.int32, [JOBS, JOB_SIZE], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    k_ready = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    k_empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    v_ready = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    v_empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    job_ready = gl.allocate_shared_memory(gl.int64, [JOBS, 1], mbarrier.MBarrierLayout())
    job_empty = gl.allocate_shared_memory(gl.int64, [JOBS, 1], mbarrier.MBarrierLayout())
    if (ABOVE > 0) or CUT:
        let_next_begin()
    for slot in gl.static_range(STAGES):
        mbarrier.init(k_ready.index(slot), count=1)
        mbarrier.init(k_empty.index(slot), count=CONSUMERS)
        mbarrier.init(v_ready.index(slot), count=1)
        mbarrier.init(v_empty.index(slot), count=CONSUMERS)
    for slot in gl.static_range(JOBS):
        mbarrier.init(job_ready.index(slot), count=1)
        mbarrier.init(job_empty.index(slot), count=CONSUMERS)
    barriers = (k_ready, k_empty, v_ready, v_empty)
    job_barriers = (job_ready, job_empty)
    if tensors.k_scale is not None:
        scale *= gl.load(tensors.k_scale)
    # with SOFTCAP scores are softcap * tanh(scale * s / softcap)
    inner, qk_scale = scale, scale * LOG2E
    if SOFTCAP:
        inner, qk_scale = scale / softcap, softcap * LOG2E
    # The consumers, then the producer: one list, since two that are added lose their constants. Behind it warps and
    # registers per thread of all but the first consumer, which has what is left.
    THREE: gl.constexpr = CONSUMERS == 3
    gl.warp_specialize(
        [
            (consume, (
                tensors.q, tensors.out, tensors.sinks, tensors.v_scale, tensors.part, part_rows, q_buffers, k_buffers,
                v_buffers, barriers, job_barriers, jobs, left, right, inner, qk_scale, which, CONSUMERS, G, BLOCK_Q,
                TILE, D, D_PAD, STAGES, Q_TOK, Q_HEAD, O_TOK, O_HEAD, CAUSAL, WINDOW, SOFTCAP, FRESH, PREFIX,
            )) if which < CONSUMERS else (produce, (
                k_desc, v_desc, new_k_desc, new_v_desc, k_buffers, v_buffers, barriers, job_barriers, jobs,
                tensors.table, tensors.cu, tensors.blocks, tensors.lens, tensors.counters, left, right, table_stride,
                num_seqs, max_segments, numbers, programs, HKV, REPEAT, BLOCK_Q, PAGE, K_PAGE, K_TOK, K_HEAD, NEW_HEAD,
                CHUNK, TILE, D_PAD, STAGES, CAUSAL, WINDOW, FRESH, PREFIX, ABOVE, CUT,
            ))
            for which in ((0, 1, 2, 3) if THREE else (0, 1, 2))
        ],
        [4, 4, 1] if THREE else [4, 1], [160, 160, 32] if THREE else [232, 40],
    )  # fmt: skip
