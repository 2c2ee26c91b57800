"""The session on a GPU, with a pretended torch: how a launch is timed, what a right answer is, what is compiled."""

from __future__ import annotations

import sys
import types
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from heurgen.base.errors import UsageError
from heurgen.tune import gpu
from heurgen.tune.gpu import (
    InterpreterSession,
    TorchSession,
    compiling_only,
    difference,
    inputs_of,
    reference_of,
    tool_versions,
)
from heurgen.tune.protocol import Scenario
from heurgen.tune.target import Target, load_target

SCENARIO = Scenario("s1", {"M": 8, "N": 8, "dtype": "float16"})


class Tensor:
    """As much of a tensor as `difference` asks for."""

    def __init__(self, values: Any, dtype: str = "torch.float16") -> None:
        self.values: NDArray[np.float64] = np.array(values, dtype=np.float64)
        self.dtype, self.shape = dtype, self.values.shape

    def double(self) -> Tensor:
        return self

    def __sub__(self, other: Tensor) -> Tensor:
        return Tensor(self.values - other.values)

    def norm(self) -> float:
        return float(np.linalg.norm(self.values))


@pytest.mark.parametrize(
    ("dtype", "error", "wrong"),
    [
        ("torch.float16", 0.0019, None),
        ("torch.float16", 0.0021, "relative error 0.0021, allowed 0.002"),
        ("torch.bfloat16", 0.0099, None),
        ("torch.bfloat16", 0.011, "relative error 0.011, allowed 0.01"),
        ("torch.float8_e4m3fn", 0.059, None),
        ("torch.float8_e4m3fn", 0.061, "relative error 0.061, allowed 0.06"),
        ("torch.int32", 0.0, None),
        ("torch.int32", 1.0, "relative error 1, allowed 0"),
    ],
)
def test_how_far_an_answer_may_be_off(dtype: str, error: float, wrong: str | None) -> None:
    assert (
        difference(object(), Tensor([3 * (1 + error), 4 * (1 + error)], dtype), Tensor([3.0, 4.0])) == wrong
    )


class OutOfMemoryError(Exception):
    """Called as torch's is."""


def test_an_error_of_inputs_or_reference_is_none_of_the_config_s() -> None:
    """It was told as if the launch had raised it, and a reference without memory as a config that does not fit."""

    def fails(error: Exception) -> Any:
        raise error

    tunable = types.SimpleNamespace(inputs=lambda scenario, device: fails(device), reference=fails)
    for error in (ZeroDivisionError("by zero"), OutOfMemoryError("no memory")):
        with pytest.raises(RuntimeError) as caught:
            reference_of(tunable, error)
        assert str(caught.value) == f"the tunable's reference raised {type(error).__name__}: {error}"
    device: Any = ZeroDivisionError("by zero")
    with pytest.raises(RuntimeError, match=r"^the tunable's inputs raised ZeroDivisionError: by zero$"):
        inputs_of(tunable, SCENARIO, device)
    with pytest.raises(OutOfMemoryError):
        inputs_of(tunable, SCENARIO, device=OutOfMemoryError())  # type: ignore[arg-type]


def test_the_interpreter_s_session_says_what_raised() -> None:
    tunable = types.SimpleNamespace(inputs=lambda *_: 1 / 0, reference=lambda _: 1 / 0)
    interpreted = object.__new__(InterpreterSession)
    interpreted._tunable, interpreted._inputs, interpreted._expected = tunable, None, None
    with pytest.raises(RuntimeError, match=r"^the tunable's inputs raised"):
        interpreted.open(SCENARIO)
    with pytest.raises(RuntimeError, match=r"^the tunable's reference raised"):
        interpreted.check({})


def test_outputs_that_are_more_or_fewer_than_the_reference_s() -> None:
    """A tensor was taken apart by its rows, as if each were an output."""
    one = Tensor([1.0])
    assert difference(object(), (one, one), one) == "launch returned 2 outputs, reference Tensor"
    assert difference(object(), (one, one), [one]) == "launch returned 2 outputs, reference 1"
    assert difference(object(), (one, one), [one, one]) is None


def test_answers_that_are_wrong_whatever_the_numbers() -> None:
    assert difference(object(), None, Tensor([1.0])) == "launch returned NoneType, expected a tensor"
    assert difference(object(), Tensor([1.0]), None) == "reference returned NoneType, expected a tensor"
    for nothing in (np.nan, -np.inf):  # a masked log-softmax: right outputs would be called wrong too
        said = "the reference holds NaN or infinity, to which no error is small: give the tunable a check"
        assert difference(object(), Tensor([nothing]), Tensor([nothing])) == said
    assert difference(object(), Tensor([np.nan]), Tensor([1.0])) == "relative error nan, allowed 0.002"
    assert (
        difference(object(), Tensor([[1.0]]), Tensor([1.0])) == "the output has shape (1, 1), expected (1,)"
    )
    assert (
        difference(object(), Tensor([0.001]), Tensor([0.0])) is None
    )  # the error itself where all should be 0
    pair = (Tensor([1.0]), Tensor([2.0]))
    assert difference(object(), pair, (Tensor([1.0]), Tensor([2.0]))) is None
    assert difference(object(), pair, (Tensor([1.0]), Tensor([1.0]))) == "relative error 1, allowed 0.002"


def test_imaginary_parts_count() -> None:
    torch = pytest.importorskip("torch")
    right = torch.complex(torch.ones(4), torch.ones(4))
    assert difference(object(), right * (1 + 1e-4), right) is None
    wrong = torch.complex(torch.ones(4), -torch.ones(4))
    assert difference(object(), wrong, right) == "relative error 1.41, allowed 0.001"
    assert difference(object(), torch.ones(4), right) == "relative error 0.707, allowed 0.001"


def test_a_tunable_may_say_what_is_wrong() -> None:
    loose = types.SimpleNamespace(tolerance=0.5)
    assert difference(loose, Tensor([1.4]), Tensor([1.0])) is None
    exact = types.SimpleNamespace(tolerance=0)
    assert difference(exact, Tensor([1.0]), Tensor([1.0])) is None
    assert difference(exact, Tensor([1.001]), Tensor([1.0])) == "relative error 0.001, allowed 0"
    own = types.SimpleNamespace(check=lambda output, expected: None if output == expected else 7)
    assert (difference(own, 1, 1), difference(own, 1, 2)) == (None, "7")


class Clock:
    """A GPU and its host: there flushes take 0.3 ms and a launch `launch_ms`, for which the host needs `host_ms`."""

    def __init__(self) -> None:
        self.gpu = self.host = 0.0
        self.launch_ms, self.host_ms = 0.02, [0.05] * 100
        self.flushes: list[int] = []
        outer = self

        class Event:
            def __init__(self, enable_timing: bool) -> None:
                assert enable_timing

            def record(self) -> None:
                self.at = outer.gpu = max(outer.gpu, outer.host)

            def elapsed_time(self, other: Event) -> float:
                return other.at - self.at

        cuda = types.SimpleNamespace(
            Event=Event,
            is_available=lambda: True,
            synchronize=self.synchronize,
            mem_get_info=lambda: (1 << 33, 1 << 34),
            get_device_properties=lambda _: types.SimpleNamespace(
                name="NVIDIA H200", major=9, minor=0, multi_processor_count=132, total_memory=1 << 37,
                shared_memory_per_block_optin=232448,
            ),
            device_count=lambda: 2,
        )  # fmt: skip
        self.torch = types.ModuleType("torch")
        parts: dict[str, Any] = {
            "cuda": cuda, "float32": "float32", "__version__": "2.11.0", "set_grad_enabled": lambda on: None,
            "version": types.SimpleNamespace(hip=None, cuda="13.0"),
            "zeros": lambda size, dtype, device: types.SimpleNamespace(sum=self.flush),
        }  # fmt: skip
        vars(self.torch).update(parts)

    def flush(self) -> None:
        self.flushes[-1:] = [self.flushes[-1] + 1] if self.flushes else [1]
        self.gpu = max(self.gpu, self.host) + 0.3

    def launch(self, inputs: Any, config: Any) -> None:
        self.host += self.host_ms.pop(0)
        self.gpu = max(self.gpu, self.host) + self.launch_ms

    def synchronize(self) -> None:
        self.host = self.gpu = max(self.gpu, self.host)
        self.flushes.append(0)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setitem(sys.modules, "torch", made.torch)
    monkeypatch.setattr(gpu, "nvidia_driver", lambda: "580.1")
    monkeypatch.setattr(gpu, "nvml_reader", lambda uuid: lambda: None)
    monkeypatch.setattr(gpu, "time", types.SimpleNamespace(perf_counter=lambda: made.host / 1e3))
    return made


def target(clock: Clock) -> Target:
    found = load_target("tests.tune.fakes:tunable")
    fake = types.SimpleNamespace(inputs=lambda scenario, device: (scenario, device), launch=clock.launch)
    return types.SimpleNamespace(tunable=fake, path=found.path)  # type: ignore[return-value]


def session(clock: Clock) -> TorchSession:
    made = TorchSession(target(clock))
    made.open(SCENARIO)
    return made


def test_the_device(clock: Clock) -> None:
    found = session(clock).device()
    assert (found.vendor, found.name, found.capability, found.driver) == (
        "nvidia",
        "NVIDIA H200",
        "9.0",
        "580.1",
    )
    assert (found.multiprocessors, found.shared_memory, found.gpus) == (132, 232448, 2)
    assert found.tools["cuda"] == "13.0"
    vars(clock.torch)["cuda"].is_available = lambda: False
    with pytest.raises(UsageError, match="there is no GPU that torch can use"):
        session(clock)


def test_a_launch_is_timed_while_the_host_is_ahead(clock: Clock) -> None:
    made = session(clock)
    assert made.sample({"BLOCK_M": 16}) == pytest.approx(clock.launch_ms)
    assert len(clock.host_ms) == 99
    assert clock.flushes[-2] == 1


def test_a_late_host_gets_more_flushes_and_keeps_them(clock: Clock) -> None:
    """With one flush of 0.3 ms the lag of a host that needs 1 ms is timed. The first stall may be a kernel's load."""
    made = session(clock)
    clock.host_ms = [1.0] * 20
    assert made.sample({"BLOCK_M": 16}) == pytest.approx(clock.launch_ms)
    tries = 20 - len(clock.host_ms)
    assert tries == 3
    assert made.sample({"BLOCK_M": 16}) == pytest.approx(clock.launch_ms)
    assert len(clock.host_ms) == 20 - tries - 1  # it remembers how many flushes this config needs
    made.open(SCENARIO)
    made.sample({"BLOCK_M": 16})
    assert len(clock.host_ms) == 20 - 2 * tries - 1  # for other inputs it finds out again


def test_one_stall_costs_one_more_launch(clock: Clock) -> None:
    made = session(clock)
    clock.host_ms = [5.0, 0.05, 0.05]
    assert made.sample({"BLOCK_M": 16}) == pytest.approx(clock.launch_ms)
    assert clock.host_ms == [0.05]


def test_a_context_that_is_gone(clock: Clock) -> None:
    made = session(clock)
    vars(clock.torch)["cuda"].empty_cache = lambda: None
    assert not made.broken()

    def fail() -> None:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    vars(clock.torch)["cuda"].synchronize = fail
    assert made.broken()


class Kernel:
    """A kernel of Triton's, as `compiling_only` patches it."""

    ran: list[bool]

    def run(self, *arguments: Any, grid: Any, warmup: bool, **options: Any) -> Any:
        self.ran.append(warmup)
        return types.SimpleNamespace(metadata=types.SimpleNamespace(shared=arguments[0]))


@pytest.fixture
def triton(monkeypatch: pytest.MonkeyPatch) -> type[Kernel]:
    Kernel.ran = []
    jit = types.ModuleType("triton.runtime.jit")
    jit.JITFunction = Kernel  # type: ignore[attr-defined]
    for name, module in (("triton", types.ModuleType("triton")), ("triton.runtime", types.ModuleType("r"))):
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setitem(sys.modules, "triton.runtime.jit", jit)
    return Kernel


def test_nothing_is_launched_while_it_is_compiled(triton: type[Kernel]) -> None:
    kernel = triton()
    run = triton.run
    with compiling_only() as kernels:
        assert kernel.run(5, grid=(1,), warmup=False) is None
    assert [k.metadata.shared for k in kernels] == [5]
    assert triton.run is run
    assert triton.ran == [True]


def test_a_kernel_that_needs_too_much_shared_memory(clock: Clock, triton: type[Kernel]) -> None:
    sys.modules["triton"].__version__ = "3.6.0"  # type: ignore[attr-defined]
    made = session(clock)
    made._tunable.launch = lambda inputs, config: triton().run(config["shared"], grid=(1,), warmup=False)
    assert made.compile({"shared": 232448}) is None
    assert made.compile({"shared": 232449}) == "needs 232449 bytes of shared memory, the device has 232448"


def test_versions_that_a_time_depends_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "triton", None)
    torch = types.SimpleNamespace(__version__="2.11", version=types.SimpleNamespace(hip="6.4", cuda=None))
    found = tool_versions(torch)
    assert set(found) == {"torch", "python", "hip"}
    assert (found["torch"], found["hip"]) == ("2.11", "6.4")
