"""What a kernel must offer so that `heurgen tune` can measure it: the protocol of a tunable.

A tunable is any object, such as an instance at the end of a module, that `package.module:name` leads to:

    name        "matmul", an identifier; names the kernel in the log's card
    features    {"M": "int", "dtype": "category"}: what `select` will be asked with, in argument order
    space       Space(parameters={"BLOCK_M": (16, 32)}, constraints=("BLOCK_M * BLOCK_N <= 16384",))
    workload    the default workload: a mapping shaped like a workload file (see `heurgen.tune.workloads`)
    inputs      (scenario, device) -> inputs: random tensors (not zeros) on that torch device, "cuda" or "cpu"
    launch      (inputs, config) -> output: one launch with this config, asynchronous, no synchronisation
    reference   (inputs) -> output: the right answer in float32 or better, by other means than the kernel

The rest is optional. The tuner looks for an attribute of that name and uses the default where there is none.

    scenario_class  (scenario) -> text. Scenarios of one class share compiled kernels and one correctness
                    check per config: put in it whatever changes the compiled code (dtype, head size) or the
                    code path (decode, prefill). Default: the category and bool features, and of each int
                    whether it is 1, a multiple of 16 or neither, as Triton specialises them.
    work            (scenario) -> a number that grows with the run time. The check of a class uses its
                    smallest scenario. Default: the product of the int and float features.
    applies         (config, scenario) -> False where the config makes no sense; such pairs are left out of
                    the log, as with a constraint of the space
    launched        (config, scenario, device) -> the settings that a config of the space comes to there.
                    `fits`, `compile` and `launch` get these for their config; their names may be others than
                    the space's. Configs that come to the same settings are measured once in a scenario, and
                    each has its rows in the log. Settings are compiled and checked once per class, as they
                    are: the class's smallest scenario must be able to launch them. Default: the config.
    fits            (config, scenario, device) -> None, or the reason why it cannot run: asked once per class,
                    with its smallest scenario, before compiling; recorded as a failure of the whole class
    compile         (inputs, config) -> None: compile without launching, in a worker process. Default:
                    `launch` with Triton's launches turned into `warmup` calls; suits `kernel[grid](...)`.
    tolerance       largest relative error ||out - ref|| / ||ref||. Default by the output's dtype: 1e-2 for
                    bfloat16, 2e-3 for float16, 1e-3 for float32 (Triton multiplies it as tf32) and complex64, 1e-6
                    for float64 and complex128, 6e-2 for fp8; 0 (exact) for others
    check           (output, expected) -> None or what is wrong; replaces the comparison by norm
    reset           (inputs) -> None: before a checked launch, poison outputs or restore what a launch changed
    sources         paths whose bytes are the kernel; hashed into the card. Default: the module's own file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from heurgen.ir import ColumnType, Value

# One config: parameter name -> value. None stands for "does not apply" (a blank cell).
Settings: TypeAlias = Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class Scenario:
    """One launch situation.

    `features` holds every feature of the tunable, and may hold more, which are not logged. `lengths` lists
    (query tokens, tokens attended to, the query's own included) per sequence, for kernels over ragged
    batches; it is filled whenever the features have num_seqs, max_seqlen_q and max_seqlen_k, also for a
    scenario given by features alone, and the features are then recomputed from it. `seed` is stable for the
    scenario: build inputs from it. `configs` limits the configs measured here (all, where empty).
    """

    id: str
    features: Mapping[str, int | float | bool | str]
    lengths: tuple[tuple[int, int], ...] = ()
    seed: int = 0
    configs: tuple[Settings, ...] = ()


@dataclass(frozen=True, slots=True)
class Space:
    """The configs to try: the product of the parameters' values, thinned by constraints.

    parameters   name -> values, in log column order. A value None is a blank cell: "does not apply".
    vendors      name -> the vendors that have the parameter; on others it is left out of configs, and blank
    constraints  texts over parameters and features (see `heurgen.tune.constraints`). A config is tried in a
                 scenario where all hold. What they exclude is not in the log: it does not apply there.
    limit        at most this many configs (0: no limit), a spread chosen by the hash of their values
    """

    parameters: Mapping[str, Sequence[Value]]
    vendors: Mapping[str, Sequence[str]] = field(default_factory=dict)
    constraints: Sequence[str] = ()
    limit: int = 0


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """What `fits` may ask and what the card records. Sizes in bytes; 0 where unknown."""

    vendor: str  # "nvidia" or "amd"
    name: str
    driver: str = ""
    capability: str = ""  # "9.0", "gfx942"
    multiprocessors: int = 0
    shared_memory: int = 0  # the most that one block may use (LDS on AMD)
    memory: int = 0
    tools: Mapping[str, str] = field(default_factory=dict)  # {"torch": "2.11.0", "triton": "3.6.0"}
    gpus: int = 1  # visible ones; the card: that measured at once, each scenarios of its own


class Tunable(Protocol):
    """The required part; the module's description lists the optional attributes."""

    @property
    def name(self) -> str: ...
    @property
    def features(self) -> Mapping[str, ColumnType]: ...
    @property
    def space(self) -> Space: ...
    @property
    def workload(self) -> Mapping[str, Any]: ...
    def inputs(self, scenario: Scenario, device: str, /) -> Any: ...
    def launch(self, inputs: Any, config: Settings, /) -> Any: ...
    def reference(self, inputs: Any, /) -> Any: ...
