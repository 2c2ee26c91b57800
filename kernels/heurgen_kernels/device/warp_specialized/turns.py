"""How a turn of the loop over keys is done, by what was measured: for tiles of TILE keys, heads of HEAD, which are D
columns with their padding.
"""

from triton.experimental import gluon


@gluon.constexpr_function
def holds_queries(TILE, D):
    """Whether a consumer holds Q in registers. A product of 64 rows and 64 keys reads from shared memory as much of Q
    as of K, all that it gives while the product lasts.

    Speed measured, prompts and chunks: heads of 128 1.02 to 1.07; in tiles of 128 keys 0.97 to 0.98 (96 0.89 to 0.98).
    For heads wider than 128 there are too few registers.
    """
    return TILE == 64 and D <= 128


@gluon.constexpr_function
def lean(TILE, HEAD, D):
    """Whether a turn's softmax is kept short: sums are scaled where a maximum has grown by more than SLACK alone, a
    row's maximum is found in short chains of instructions, and threads add their shares of a row's sum at the end.

    Speed measured on an H100 with `hides_values`, prompts of 11,571 to 30,000 tokens and chunks: heads of 128 1.02 to
    1.06, of 112 1.03 to 1.07, of 256 1.07 to 1.08 (with a soft cap 1.03 to 1.08), of 192 1.02 to 1.06; but in tiles of
    128 keys 96 0.90 to 0.97, 64, without `hides_values`, 0.91 to 1.01. In tiles of 64, with `holds_queries`
    beside neither on an H200, 96 1.05 (prompts of 200 tokens 0.97) and where keys are cut 1.08, 64 1.01 and 1.03 (with
    a soft cap 0.99). Sizes between were not measured, but 80 in tiles of 64 (1.10).
    """
    return holds_queries(TILE, D) or D > 128 or (D == 128 and HEAD > 96)


@gluon.constexpr_function
def hides_values(TILE, HEAD, D, SOFTCAP):
    """Whether a consumer's softmax runs while the matrix unit multiplies the last tile's weights with V, not behind it.

    Speed measured on an H100 beside `lean` alone: heads of 128 in tiles of 64 keys 1.01 to 1.03; heads of 256 with a
    soft cap 1.01 to 1.04 at long prompts and chunks, but 0.94 to 0.98 at short prompts. A soft cap at other sizes was
    not measured. Where not lean it loses (an H200): 96 0.95 to 0.99, 64 0.94 to 0.97 with two consumers, 0.97 to 1.01
    with three, which hide each other's softmax.
    """
    return lean(TILE, HEAD, D) and not SOFTCAP


@gluon.constexpr_function
def leaves_padding(HEAD, D):
    """Whether a head is so much narrower than its padded columns D that products leave out their last quarter: of two
    lengths then, since these are powers of two.
    """
    return D >= 128 and 4 * HEAD <= 3 * D


@gluon.constexpr_function
def value_columns(TILE, HEAD, D):
    """Columns of the first sums of weights and values, of which there are second ones, of half as many columns, where
    padding is left out: not where Q is in registers (heads of 80 and 96 1.05 to 1.07 with sums of all columns).
    """
    return D // 2 if leaves_padding(HEAD, D) and not holds_queries(TILE, D) else D
