"""`static_grid` as a tunable of its own: into how many segments a recorded launch cuts the keys of decodes.

`heurgen tune static_grid -o LOG.csv`. One compiled kernel serves all numbers of segments, as it does under a
graph; tile, warps and stages are what the graph was recorded with.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from ..api import paged_attention
from ..defaults import CHOICE, GRAPH
from ..host.hardware import device_of
from .tunable import Inputs, Tunable, make_inputs

_HEADS = {"head_size": 128, "page_size": 16, "dtype": "bfloat16", "max_tokens": 4_194_304}


@dataclass(frozen=True, slots=True)
class Forced:
    """Heuristics that do not choose: `choose_segments` is a number."""

    choose_segments: int


class StaticGrid(Tunable):
    """See heurgen/tune/protocol.py for what each attribute is."""

    name = "static_grid"
    features: Mapping[str, str] = dict.fromkeys(CHOICE, "int")

    @property
    def space(self) -> Any:
        from heurgen.tune.protocol import Space

        segments = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
        return Space(
            parameters={
                "TILE_SIZE": (GRAPH.TILE_SIZE,),
                "num_warps": (GRAPH.num_warps,),
                "num_stages": (GRAPH.num_stages,),
                "num_segments": tuple(n for n in segments if n <= GRAPH.num_segments),
            }
        )

    @property
    def workload(self) -> Mapping[str, Any]:
        """Decode batches of the device at hand, as in data/h200_static_grid.workload.toml."""
        place = f"cuda:{torch.cuda.current_device()}" if torch.cuda.is_available() else "cpu"
        shared = {
            "decode_share": 1.0,
            "multiprocessors": device_of(torch.device(place)).processors,
        }
        return {
            "batch": [
                {
                    "name": "decode",
                    "count": 48,
                    "num_seqs": [1, 2, 4, 8, 16, 32, 64, 128, 256],
                    "tokens": [64, 256, 1024, 4096, 16384, 65536, 131072],
                    "distribution": ["uniform", "lognormal", "one_long"],
                    "heads": [[32, 8]],
                    **shared,
                    **_HEADS,
                },
                {
                    "name": "layouts",
                    "count": 12,
                    "num_seqs": [1, 4, 16, 64],
                    "tokens": [256, 2048, 16384, 65536],
                    "distribution": ["uniform", "one_long"],
                    "heads": [[64, 8], [28, 4], [32, 32]],
                    **shared,
                    **_HEADS,
                },
            ]
        }

    def inputs(self, scenario: Any, device: str) -> Inputs:
        found = device_of(torch.empty(0, device=device).device).processors
        said = scenario.features["multiprocessors"]
        if found != said:
            raise ValueError(f"the workload says {said} multiprocessors, the device has {found}")
        return make_inputs(scenario.lengths, scenario.features, device, scenario.seed)

    def launch(self, inputs: Inputs, config: Mapping[str, Any]) -> torch.Tensor:
        fixed = {name: config[name] for name in ("TILE_SIZE", "num_warps", "num_stages")}
        return paged_attention(
            inputs.q, inputs.key_cache, inputs.value_cache, inputs.block_table, inputs.cu_seqlens_q,
            inputs.seq_lens,
            out=inputs.out, config=GRAPH._replace(**fixed), heuristics=Forced(config["num_segments"]),
            **inputs.arguments,
        )  # fmt: skip

    def scenario_class(self, scenario: Any) -> str:
        """What changes the compiled code: the shapes of a head and a page, and the type."""
        names = ("num_query_heads", "num_kv_heads", "head_size", "page_size", "dtype")
        return " ".join(str(scenario.features[name]) for name in names)

    def applies(self, config: Mapping[str, Any], scenario: Any) -> bool:
        """More segments than tiles are as many as there are tiles: every number of them is a valid choice."""
        return True

    def launched(self, config: Mapping[str, Any], scenario: Any, device: Any) -> Mapping[str, Any]:
        """The config itself: the number of segments is what is measured, nothing cuts it further."""
        return config


tunable = StaticGrid()
