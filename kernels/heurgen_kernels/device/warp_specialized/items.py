"""Work items: a Q block of one KV head over one segment of its tiles. Which there are, and in which order."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

ONE_WARP = gl.constexpr(gl.BlockedLayout([4], [32], [1], [0]))


@gluon.jit
def let_next_begin():
    """As `dependent.let_next_begin`."""
    gl.inline_asm_elementwise(
        "griddepcontrol.launch_dependents; // $0", "=r", [], dtype=gl.int32, is_pure=False, pack=1
    )


@gluon.jit
def await_former():
    """As `dependent.await_former`."""
    gl.inline_asm_elementwise("griddepcontrol.wait; // $0", "=r", [], dtype=gl.int32, is_pure=False, pack=1)


@gluon.jit
def uniform(value):
    """The same number, which the assembler then knows to be the same in all threads of a warp."""
    return gl.inline_asm_elementwise(
        "shfl.sync.idx.b32 $0, $1, 0, 31, 0xffffffff;", "=r,r", [value], dtype=gl.int32, is_pure=True, pack=1
    )


@gluon.jit
def numbers_below(count: gl.constexpr, LAYOUT: gl.constexpr):
    """0 .. count - 1, computed anew wherever it is called: kept in registers it would spill."""
    numbers = gl.arange(0, count, LAYOUT)
    return gl.inline_asm_elementwise(
        "mov.b32 $0, $1;", "=r,r", [numbers], dtype=gl.int32, is_pure=False, pack=1
    )


@gluon.jit
def find_sequence(cu_ptr, target, num_seqs, BLOCK_Q: gl.constexpr, IMPLICIT: gl.constexpr):
    """As `tiles.find_sequence`: the last sequence whose first Q block is <= target."""
    low = 0
    high = num_seqs
    while high - low > 128:
        middle = (low + high) // 2
        value = gl.load(cu_ptr + middle)
        if IMPLICIT:
            value = value // BLOCK_Q + middle
        if value <= target:
            low = middle
        else:
            high = middle
    index = low + gl.arange(0, 128, ONE_WARP)
    values = gl.load(cu_ptr + index, mask=index < high, other=0)
    if IMPLICIT:
        values = values // BLOCK_Q + index
    return uniform(low + gl.sum(((values <= target) & (index < high)).to(gl.int32), 0) - 1)


@gluon.jit
def locate_block(cu_ptr, blocks_ptr, lens_ptr, number, num_seqs, BLOCK_Q: gl.constexpr):
    """(sequence, block inside it, its first token, its query length, tokens before these) of Q block `number`."""
    if blocks_ptr is not None:
        sequence = find_sequence(blocks_ptr, number, num_seqs, BLOCK_Q, False)
        token0 = gl.load(cu_ptr + sequence)
        block = number - gl.load(blocks_ptr + sequence)
    else:
        sequence = find_sequence(cu_ptr, number, num_seqs, BLOCK_Q, True)
        token0 = gl.load(cu_ptr + sequence)
        block = number - token0 // BLOCK_Q - sequence
    q_len = gl.load(cu_ptr + sequence + 1) - token0
    return sequence, block, token0, q_len, gl.load(lens_ptr + sequence) - q_len


@gluon.jit
def survey(
    cu_ptr, lens_ptr, num_seqs, most, BLOCK_Q: gl.constexpr, TILE: gl.constexpr, ABOVE: gl.constexpr,
    CUT: gl.constexpr,
):  # fmt: skip
    """(sequences at the front with one query token each, longest sequence, whether one of those at the front is it,
    the sequence with most tokens before its new ones, more than ABOVE, or the last one where no sequence has any, where
    CUT tiles that all Q blocks of a head see, each all of its sequence). most: of `seen_by_block`.
    """
    leading, decode, other = 0, 0, 0
    before_most, late = 0, num_seqs - 1
    all_tiles = 0.0
    for first in range(0, num_seqs, 128):
        index = first + gl.arange(0, 128, ONE_WARP)
        there = index < num_seqs
        begins = gl.load(cu_ptr + index, mask=there, other=0)
        ends = gl.load(cu_ptr + index + 1, mask=there, other=0)
        lengths = gl.load(lens_ptr + index, mask=there, other=0)
        in_front = ends == index + 1
        leading += gl.sum((in_front & there).to(gl.int32), 0)
        decode = gl.maximum(decode, gl.max(gl.where(in_front, lengths, 0), 0))
        other = gl.maximum(other, gl.max(gl.where(in_front, 0, lengths), 0))
        before = gl.where(in_front | (ends - begins <= ABOVE), 0, lengths - (ends - begins))
        top = gl.max(before, 0)
        late = gl.where(top > before_most, gl.max(gl.where(before == top, index, 0), 0), late)
        before_most = gl.maximum(before_most, top)
        if CUT:
            blocks = (ends - begins + BLOCK_Q - 1) // BLOCK_Q
            tiles = (gl.minimum(lengths, most) + TILE - 1) // TILE
            # whole numbers are multiplied, then added as floats: the second launch is to find the same sum
            all_tiles += gl.sum((blocks * tiles).to(gl.float32), 0)
    decodes_are_long = uniform(gl.where(decode > other, 1, 0)) > 0
    return uniform(leading), uniform(gl.maximum(decode, other)), decodes_are_long, uniform(late), all_tiles


@gluon.jit
def in_turn(turn, decodes, numbers):
    """The Q block that comes `turn`-th: the last one first, and each second turn one of the decodes in front.

    Long items go first, so that the programs end together: late blocks of a prompt are its longest.
    """
    pairs = gl.minimum(decodes, numbers - decodes)
    number = gl.where(turn % 2 == 0, numbers - 1 - turn // 2, turn // 2)
    rest = gl.where(decodes > pairs, turn - pairs, numbers - 1 - (turn - pairs))
    return gl.where(turn < 2 * pairs, number, rest)


@gluon.jit
def tile_counts(
    block, q_len, context, left, right, BLOCK_Q: gl.constexpr, TILE: gl.constexpr, CAUSAL: gl.constexpr,
    WINDOW: gl.constexpr, FRESH: gl.constexpr, PREFIX: gl.constexpr,
):  # fmt: skip
    """Tiles of a Q block: (masked new, whole new, masked cached, whole cached, passed new, passed cached).

    New tokens have tiles of their own. Tiles that lie before the windows of all rows are passed; those that some row
    sees a part of count as whole here, `behind_window` finds them.
    """
    first = block * BLOCK_Q
    last = gl.minimum(first + BLOCK_Q, q_len) - 1
    low, offset = q_len, 0
    if not FRESH:
        low, offset = context + q_len, context
    high = low
    if CAUSAL:
        high = gl.minimum(low, offset + last + right + 1)
        low = gl.minimum(low, offset + first + right + 1)
    passed, page_passed = 0, 0
    if WINDOW:
        passed = gl.maximum(gl.minimum(offset + first - left, high), 0) // TILE
        page_passed = gl.maximum(gl.minimum(context + first - left, context), 0) // TILE
    whole = gl.maximum(low // TILE - passed, 0)
    masked = (high + TILE - 1) // TILE - passed - whole
    if not FRESH:
        return 0, 0, masked, whole, 0, passed
    if not PREFIX:
        return masked, whole, 0, 0, passed, 0
    page_whole = gl.maximum(context // TILE - page_passed, 0)
    page_masked = (context + TILE - 1) // TILE - page_passed - page_whole
    return masked, whole, page_masked, page_whole, passed, page_passed


@gluon.jit
def seen_by_block(
    left, right, BLOCK_Q: gl.constexpr, TILE: gl.constexpr, CAUSAL: gl.constexpr, WINDOW: gl.constexpr
):
    """Tokens of a sequence that the tiles of a Q block have at the most."""
    most = 1 << 30
    if WINDOW and CAUSAL:
        most = left + right + BLOCK_Q + TILE
    return most


@gluon.jit
def long_tiles(cu_ptr, lens_ptr, num_seqs, most, longest, BLOCK_Q: gl.constexpr, TILE: gl.constexpr):
    """As `all_tiles` of `survey`, of the sequences longer than half of the longest one; each of their blocks sees half
    of the new tokens.
    """
    tiles = 0.0
    for first in range(0, num_seqs, 128):
        index = first + gl.arange(0, 128, ONE_WARP)
        there = index < num_seqs
        q_len = gl.load(cu_ptr + index + 1, mask=there, other=0) - gl.load(
            cu_ptr + index, mask=there, other=0
        )
        lengths = gl.minimum(gl.load(lens_ptr + index, mask=there, other=0), most)
        seen = (gl.maximum(lengths - q_len // 2, 0) + TILE - 1) // TILE
        seen = gl.where(lengths > longest // 2, (q_len + BLOCK_Q - 1) // BLOCK_Q * seen, 0)
        tiles += gl.sum(seen.to(gl.float32), 0)
    return tiles


@gluon.jit
def cut_into(
    cu_ptr, lens_ptr, num_seqs, most, longest, all_tiles, programs, max_segments, HKV: gl.constexpr,
    BLOCK_Q: gl.constexpr, TILE: gl.constexpr,
):  # fmt: skip
    """(segments of the longest sequence, tiles of a segment). most: of `seen_by_block`; longest, all_tiles: of
    `survey`; programs: as many as all Q blocks' tiles would give, had each program as many as a segment; 0: there are
    max_segments.

    Rounded to the nearest, but the segments of the longest sequences are not more than the programs: these would end
    in a round of few. 69 blocks of decodes, 1.8 segments each for 132 programs, in two are a fifth longer.
    """
    longest = gl.minimum(longest, most)
    tiles = gl.maximum((longest + TILE - 1) // TILE, 1)
    segments = max_segments
    if programs > 0:
        room = programs.to(gl.float32) * tiles.to(gl.float32) / HKV
        limit = max_segments.to(gl.float32)
        long = long_tiles(cu_ptr, lens_ptr, num_seqs, most, longest, BLOCK_Q, TILE)
        nearest = (gl.minimum(room / gl.maximum(all_tiles, 1.0), limit) + 0.5).to(gl.int32)
        whole = (gl.minimum(room / gl.maximum(long, 1.0), limit) + 0.02).to(gl.int32)
        segments = uniform(gl.maximum(gl.minimum(nearest, whole), 1))
    return segments, (tiles + segments - 1) // segments


@gluon.jit
def part_count(tiles, per_segment, max_segments):
    """(tiles of a Q block, segments that they are cut into). tiles: `tile_counts`."""
    new_masked, new_whole, page_masked, page_whole, _passed, _page_passed = tiles
    total = new_masked + new_whole + page_masked + page_whole
    return total, gl.minimum(gl.maximum((total + per_segment - 1) // per_segment, 1), max_segments)


@gluon.jit
def tile_place(t, tiles, FRESH: gl.constexpr, PREFIX: gl.constexpr):
    """(of the new tokens?, its number there) of the t-th tile: masked ones first, in each group the last one first."""
    new_masked, new_whole, page_masked, page_whole, passed, page_passed = tiles
    if not FRESH:
        return False, page_passed + page_masked + page_whole - 1 - t
    if not PREFIX:
        return True, passed + new_masked + new_whole - 1 - t
    late = t - new_masked - page_masked
    new = (t < new_masked) | ((late >= 0) & (late < new_whole))
    in_new = gl.where(t < new_masked, new_masked + new_whole - 1 - t, new_whole - 1 - late)
    in_pages = gl.where(
        late < 0, page_masked + page_whole - 1 - (t - new_masked), page_whole - 1 - (late - new_whole)
    )
    return new, gl.where(new, in_new + passed, in_pages + page_passed)


@gluon.jit
def behind_window(
    t, last, context, left, tiles, TILE: gl.constexpr, FRESH: gl.constexpr, PREFIX: gl.constexpr
):
    """Whether the window of token `last`, the last one of a block, begins behind the first key of the t-th tile."""
    new, index = tile_place(t, tiles, FRESH, PREFIX)
    offset = context
    if FRESH:
        offset = gl.where(new, 0, context)
    return index * TILE < last + offset - left


@gluon.jit
def blocks_of(cu_ptr, blocks_ptr, sequence, numbers, BLOCK_Q: gl.constexpr):
    """The numbers of a sequence's Q blocks: (first, behind the last). numbers: of all blocks."""
    if blocks_ptr is not None:
        begin = gl.load(blocks_ptr + sequence)
        end = gl.load(blocks_ptr + sequence + 1)
    else:
        begin = gl.load(cu_ptr + sequence) // BLOCK_Q + sequence
        end = gl.load(cu_ptr + sequence + 1) // BLOCK_Q + sequence + 1
    # an implicit number is left out where a block ends with its sequence: of the last one it may be beyond all
    return begin, gl.minimum(end, numbers)


@gluon.jit
def put_last(number, begin, end, numbers):
    """The number-th Q block where begin .. end come behind all others.

    The last ones are taken first. A server puts the rest of a long prompt in front of new ones: its Q blocks, each of
    which reads all that is cached, would be the last to be taken, and programs would wait for them.
    """
    count = end - begin
    moved = gl.where(number < numbers - count, number + count, number - (numbers - end))
    return gl.where(number < begin, number, moved)


@gluon.jit
def longest_but(lens_ptr, num_seqs, which):
    """The most tokens that a sequence other than number `which` attends to."""
    longest = 0
    for first in range(0, num_seqs, 128):
        index = first + gl.arange(0, 128, ONE_WARP)
        lengths = gl.load(lens_ptr + index, mask=(index < num_seqs) & (index != which), other=0)
        longest = gl.maximum(longest, gl.max(lengths, 0))
    return uniform(longest)


@gluon.jit
def item_at(work, first_blocks, max_segments, rest_segments, HKV: gl.constexpr):
    """(turn of a Q block, head, segment) of item `work`: the first blocks have max_segments, others rest_segments."""
    behind = work - first_blocks * max_segments * HKV
    segments = gl.where(behind < 0, max_segments, rest_segments)
    at = gl.where(behind < 0, work, behind)
    turn = at // (HKV * segments) + gl.where(behind < 0, 0, first_blocks)
    return turn, at % HKV, at // HKV % segments
