"""What the columns of a log are, by their names and by what varies."""

from __future__ import annotations

import itertools
import json

import pytest

from heurgen.base.errors import LogError
from heurgen.logs.cells import parse_cells
from heurgen.logs.draft import Said, draft, drafted_spec
from heurgen.logs.roles import guesses_of, whole_config
from heurgen.spec.log_columns import LogColumns


def roles(text: str) -> dict[str, str]:
    return {name: guess.role for name, guess in guesses_of(parse_cells([("t", text)]), LogColumns()).items()}


def test_names_speak_before_the_data() -> None:
    found = roles("M,BLOCK_M,tflops,torch,time_ms\n1,16,5,2.1,1\n1,32,6,2.1,2\n")
    assert found == {"M": "feature", "BLOCK_M": "parameter", "tflops": "none", "torch": "none"}


def test_the_column_of_todays_defaults_is_no_parameter() -> None:
    """`audit` reads it; a kernel has no such knob. Of other values it is a column like any other."""
    rows = "M,BLOCK_M,default,time_ms\n1,16,{},1\n1,32,{},2\n2,16,{},1\n2,32,{},2\n"
    assert roles(rows.format("true", "false", "", "yes"))["default"] == "none"
    assert roles(rows.format("4", "8", "4", "8"))["default"] == "parameter"


@pytest.mark.parametrize("date", ["2026-11-{:02d}", "2026-11-{:02d}T10:00:00Z", "2026/11/{:02d} 10:00"])
def test_when_a_row_was_measured_is_no_knob(date: str) -> None:
    rows = [f"{m},{b},{date.format(1 + (m + b) % 3)},{m + b}\n" for m in (1, 2, 3) for b in (16, 32)]
    assert roles("M,BLOCK_M,measured,time_ms\n" + "".join(rows))["measured"] == "none"


def test_what_varies_inside_a_scenario_is_a_parameter() -> None:
    found = roles("scenario,alpha,beta,gamma,time_ms\ns,1,1,0.1,1\ns,1,2,0.2,2\nt,3,1,0.3,1\nt,3,2,0.4,2\n")
    assert found == {"alpha": "feature", "beta": "parameter", "gamma": "none"}


def test_a_file_without_scenario_ids_beside_one_with_them() -> None:
    """Its rows were one scenario in which everything varies: no column was a feature, where training reads both."""
    rows = "1,1,16\n2,1,32\n1,8,16\n2,8,32\n"
    marked = "1,1,16,s\n2,1,32,s\n1,8,16,t\n2,8,32,t\n"
    cells = parse_cells([("a", "time_ms,M,alpha\n" + rows), ("b", "time_ms,M,alpha,scenario\n" + marked)])
    assert {n: g.role for n, g in guesses_of(cells, LogColumns()).items()} == {
        "M": "feature",
        "alpha": "parameter",
    }


@pytest.mark.parametrize(
    ("column", "role"), [("a b", "feature"), ("a\x1bb", "none"), ("alpha", "feature"), ("note", "none")]
)
def test_columns_of_one_value(column: str, role: str) -> None:
    assert roles(f"M,BLOCK_M,{column},time_ms\n1,16,x,1\n2,32,x,2\n")[column] == role


def test_without_scenarios_the_other_inputs_stand_for_them() -> None:
    rows = [f"{m},{a},{b},{0.1 * m + a}\n" for m in (1, 2) for a in (3, 4) for b in (a * 2,)]
    assert roles("M,alpha,beta,time_ms\n" + "".join(rows)) == {
        "M": "feature",
        "alpha": "feature",
        "beta": "feature",
    }
    rows = [f"{m},{a},{0.1 * m + a}\n" for m in (1, 2) for a in (3, 4)]
    assert roles("M,alpha,time_ms\n" + "".join(rows)) == {"M": "feature", "alpha": "parameter"}


def test_the_object_that_a_key_lies_in_tells_its_role() -> None:
    lines = [
        json.dumps(
            {
                "problem": {"a": a},
                "config": {"b": b, "M": b},
                "result": {"c": a * b, "d": 1},
                "time_ms": a + b,
            }
        )
        for a in (1, 2)
        for b in (3, 4)
    ]
    assert roles("\n".join(lines)) == {
        "problem.a": "feature",
        "config.b": "parameter",
        "config.M": "parameter",
        "result.c": "none",
        "result.d": "none",
    }


@pytest.mark.parametrize("column", ["config/{}", "param:{}", "params.{}", "config.{}"])
def test_sizes_among_the_knobs_are_to_be_named(column: str) -> None:
    """Ray Tune, pytest-benchmark, MLflow and W&B write sizes and knobs alike: a knob was a feature for its loop."""
    sizes, knobs = column.format("M"), [column.format("BLOCK"), column.format("num_warps")]
    rows = [f"H200,{m},{b},{w},{m + b + w}.5\n" for m in (1, 64) for b in (16, 32) for w in (4, 8)]
    table = parse_cells([("t", f"device,{sizes},{','.join(knobs)},time_ms\n" + "".join(rows))])
    with pytest.raises(LogError, match=f"say which of '{sizes}', '{knobs[0]}', .* are sizes of the problem"):
        draft(table, "t", Said())
    found = draft(table, "t", Said(features=(sizes,)))
    assert [e.column.name for e in (*found.features, *found.parameters)] == ["M", "BLOCK", "num_warps"]


@pytest.mark.parametrize(
    "column",
    [
        "seed",
        "pid",
        "node_ip",
        "trial",
        "Sweep",
        "experiment_tag",
        "Source Type",
        "summary.x",
        "tags.y",
        "sub_label",
        "min",
        "stddev",
        "ops",
        "rounds",
    ],
)
def test_bookkeeping_of_runs_is_neither(column: str) -> None:
    rows = [f"{m},{b},{m + b % 3},{m + b}.5\n" for m in (1, 64) for b in (16, 32, 64)]
    assert roles(f"M,BLOCK,{column},time_ms\n" + "".join(rows))[column] == "none"


def why(text: str) -> dict[str, str]:
    return {name: guess.why for name, guess in guesses_of(parse_cells([("t", text)]), LogColumns()).items()}


def test_a_list_below_another_object_is_what_its_own_name_says() -> None:
    """`result` and `measurement` hold everything here, and say nothing of what is named beneath them."""
    lines = [
        {"result": {"config": [b, 32], "shape": [m, 2 * m], "time_ms": m + b}}
        for m in (1, 2)
        for b in (16, 64)
    ]
    found = roles("\n".join(json.dumps(line) for line in lines))
    assert (found["result.config.0"], found["result.shape.1"]) == ("parameter", "feature")


def test_a_list_is_what_the_object_around_it_is() -> None:
    """`block_sizes` and `sizes` end in a word for features, and alone they are taken for some."""
    lines = [
        {"shape": {"config_sizes": [m, 2 * m]}, "sizes": [m], "config": {"block_sizes": [b], "x": b}}
        for m in (1, 2)
        for b in (16, 32)
    ]
    text = "\n".join(json.dumps(line | {"time_ms": i}) for i, line in enumerate(lines, start=1))
    assert roles(text) == {
        "shape.config_sizes.0": "feature",
        "shape.config_sizes.1": "feature",
        "sizes.0": "feature",
        "config.block_sizes.0": "parameter",
        "config.x": "parameter",
    }
    assert why(text)["config.block_sizes.0"] == "guess: it stands in config; confirm"
    assert why(text)["sizes.0"] == "guess: it stands in sizes; confirm"


def test_every_guess_says_why() -> None:
    head = "M,BLOCK_M,tflops,torch,empty,alpha,_x,KNOB"
    rows = [f"{m},{b},{m * b}.5,2.1,,7,{b},{m}" for m in (1, 2) for b in (16, 32)]
    assert why(f"{head},time_ms\n" + "\n".join(f"{r},1" for r in rows)) == {
        "M": "guess: a known feature; confirm",
        "BLOCK_M": "guess: a known parameter; confirm",
        "tflops": "guess: a result, not known at launch; confirm",
        "torch": "guess: a label or an id, not known at launch; confirm",
        "empty": "left out: always blank",
        "alpha": "guess: constant",
        "_x": "left out: no parameter's name starts with an underscore; rename the column",
        "KNOB": "guess: named like a parameter; confirm",
    }
    rows = [f"s{s},{s},{s},{x},{x / 8}" for s in (1, 2) for x in (5, 6)]
    assert why("scenario,M,alpha,beta,gamma,time_ms\n" + "\n".join(f"{r},1" for r in rows)) == {
        "M": "guess: a known feature; confirm",
        "alpha": "guess: constant inside each scenario; confirm",
        "beta": "guess: varies inside a scenario; confirm",
        "gamma": "guess: a float that varies inside a scenario is a result; confirm",
    }


def test_what_varies_in_one_scenario_alone_varies() -> None:
    found = roles("scenario,beta,time_ms\ns,1,1\ns,2,1\nt,1,1\nu,1,1\n")
    assert found == {"beta": "parameter"}


def test_all_inputs_together_determine_a_feature() -> None:
    rows = [f"{m},{n},{b},{10 * m + n},{b}" for m in (1, 2) for n in (3, 4) for b in (16, 32)]
    text = "M,N,BLOCK_M,alpha,time_ms\n" + "\n".join(rows)
    assert why(text)["alpha"] == "guess: the other columns determine it; confirm"
    rows = [f"{a},{m},{b},{b}" for a in (7, 8) for m in (1, 2) for b in (16, 32)]
    assert (
        why("alpha,M,BLOCK_M,time_ms\n" + "\n".join(rows))["alpha"]
        == "guess: an outer loop of the sweep; confirm"
    )
    assert why('{"problem": {"a": 1}, "time_ms": 1}\n{"problem": {"a": 2}, "time_ms": 1}')["problem.a"] == (
        "guess: it stands in problem; confirm"
    )


@pytest.mark.parametrize(("n", "role"), [(100, "feature"), (101, "none")])
def test_text_of_many_values_is_no_category(n: int, role: str) -> None:
    lines = [f"1,16,x{i},1" for i in range(n)]
    assert roles("M,BLOCK_M,dtype,time_ms\n" + "\n".join(lines))["dtype"] == role


@pytest.mark.parametrize(
    ("column", "values", "role"),
    [
        ("Problem", (1, 2, 3), "none"),
        ("problem_no", (0, 1, 2), "none"),
        ("problem", (128, 256, 512), "feature"),
        ("problem", (2, 3, 4), "feature"),
        ("problem", ("a", "b", "c"), "feature"),
        ("planes", (1, 2, 3), "feature"),
    ],
)
def test_the_number_of_a_problem_is_no_feature(column: str, values: tuple[object, ...], role: str) -> None:
    """As cutlass_profiler counts them: no launch knows it, though it tells problems apart as well as sizes do."""
    rows = [f"{v},{m},{b},1" for v, m in zip(values, (64, 512, 4096), strict=True) for b in (16, 32)]
    assert roles(f"{column},m,BLOCK_M,time_ms\n" + "\n".join(rows))[column] == role


def test_text_with_spaces_around_it_is_no_category() -> None:
    assert why("M,BLOCK_M,dtype,time_ms\n1,16,a ,1\n2,16,b,1\n")["dtype"] == (
        "left out: it holds control characters or spaces around values"
    )


def test_ids_and_results_are_told_by_how_often_they_differ() -> None:
    rows = [(m, b, 10 * m + b, m + b / 64 + 0.3) for m in range(1, 7) for b in (1, 2, 4)]
    text = "M,BLOCK_M,ticket,score,time_ms\n" + "\n".join(f"{m},{b},{t},{s},1" for m, b, t, s in rows)
    found = why(text)
    assert found["ticket"] == "guess: different in every row: an id; confirm"
    text = "M,batch,score,time_ms\n" + "\n".join(f"{m % 3},{m % 2},{m}.5,1" for m in range(18))
    assert why(text)["score"] == "guess: a float that varies like a result; confirm"


@pytest.mark.parametrize("fixed", ["3", "{device}"])
def test_a_parameter_of_one_value_hides_no_outer_loop(fixed: str) -> None:
    """It changes seldom, too: beside num_stages = 3 throughout a feature without a known name was a knob."""
    rows = [
        f"{device},{m},{mode},{b},{w},{fixed.format(device=device)},{i}.5\n"
        for i, (device, m, mode, b, w) in enumerate(itertools.product("ab", (1, 8), "pq", (16, 32), (4, 8)))
    ]
    text = "device,M,gqa,BLOCK_M,num_warps,num_stages,time_ms\n" + "".join(rows)
    assert roles(text)["gqa"] == "feature"
    assert why(text)["gqa"] == "guess: an outer loop of the sweep; confirm"


def test_what_the_parameters_determine_and_the_features_do_not_is_of_a_config() -> None:
    rows = [f"{m},{b},op{b},{2 * m},1" for m in (1, 2, 3) for b in (16, 32)]
    text = "M,BLOCK_M,operation,doubled,time_ms\n" + "\n".join(rows)
    assert why(text)["operation"] == "guess: the parameters determine it; confirm"
    assert roles(text) == {
        "M": "feature",
        "BLOCK_M": "parameter",
        "operation": "parameter",
        "doubled": "feature",
    }
    # Configs in one row each determine everything.
    once = "M,BLOCK_M,operation,time_ms\n" + "\n".join(f"{m},{16 * m},op{m},1" for m in (1, 2, 3))
    assert roles(once)["operation"] == "feature"


def test_the_column_of_a_whole_config() -> None:
    def found(text: str) -> str | None:
        cells = parse_cells([("t", text)])
        return whole_config(cells, guesses_of(cells, LogColumns()), LogColumns())

    assert found("M,name,config,time_ms\n1,a,x,1\n1,b,y,2\n2,a,x,1\n") == "config"
    assert found("M,choice,config,time_ms\n1,a,x,1\n1,b,y,2\n2,a,x,1\n") == "config"
    assert found("M,name,choice,time_ms\n1,a,x,1\n1,b,x,2\n2,a,x,1\n") == "name"
    assert found("M,name,time_ms\n1,a,1\n1,,2\n") is None
    assert found("M,name,time_ms\n1,a,1\n2,b,2\n") is None
    assert found("name,time_ms\na,1\nb,2\n") is None


@pytest.mark.parametrize(
    "texts",
    [
        ('"{""B"": 16, ""w"": 4}"', '"{""B"": 32, ""w"": 4}"'),
        ('"BLOCK: 16, num_warps: 4"', '"BLOCK: 32, num_warps: 4"'),
        ("B=16 w=4", "B=32 w=4"),
    ],
)
@pytest.mark.parametrize("order", ["affine,M,config,clusters", "clusters,config,M,affine"])
@pytest.mark.parametrize("called", ["config", "triton_cfg"])
def test_beside_the_text_of_a_whole_config_nothing_is_a_knob(
    texts: tuple[str, str], order: str, called: str
) -> None:
    """ "affine" was the only knob of such a log, and the config a label that training left out."""
    found = [
        {"M": m, "affine": a, "config": texts[c], "clusters": 2 * c}
        for m in (1, 8, 64)
        for a in ("yes", "no")
        for c in (0, 1)
    ]
    lines = [",".join(str(r[name]) for name in order.split(",")) + f",{i}.5\n" for i, r in enumerate(found)]
    text = order.replace("config", called) + ",time_ms\n" + "".join(lines)
    assert roles(text) == {"M": "feature", "affine": "feature", called: "parameter", "clusters": "parameter"}
    assert why(text)["affine"] == f"guess: {called} does not tell it; confirm"


COUNTERS = """kernel,time (us),Local size,TILE,M,l.avg.pct_elapsed,dram__read.sum,Registers count,gain%,sparsity (%)
k,9.5,32,1,64,21.25,262299,12,1.5,50
k,8.5,64,2,64,32.5,262231,14,2.5,50
k,19.5,32,1,128,22.25,524299,12,3.5,75
k,17.5,64,2,128,33.5,524231,14,4.5,75
"""


def test_counters_and_percentages_are_results() -> None:
    """KTT's CSV: a percentage of the time that elapsed was taken for the time, for its "avg", counters for features."""
    spec, _ = drafted_spec(parse_cells([("ktt.csv", COUNTERS)]))
    assert spec.log.time == "time (us)"
    assert [f.column or f.name for f in spec.features] == ["M", "sparsity (%)"]
    assert [p.column or p.name for p in spec.parameters] == ["Local size", "TILE"]


def test_percentiles_of_the_time_are_no_features() -> None:
    """Liger's tables: y_value_20 and y_value_80, which tell a config from its time, became features."""
    rows = "".join(
        f"H200,{m},{p},{m * b}.5,{m * b}.25,{m * b}.75\n" for m in (1, 64) for p, b in (("x", 2), ("y", 3))
    )
    table = parse_cells([("t", "gpu,M,provider,value_50,value_20,value_80\n" + rows)])
    said = Said(time="value_50", parameters=("provider",))
    assert [f.column.name for f in draft(table, "t", said).features] == ["M"]


def test_the_median_is_the_time_beside_the_best() -> None:
    rows = "".join(f"H200,{m},{b},{m * b}.5,{m * b}.75\n" for m in (1, 64) for b in (16, 32))
    spec, _ = drafted_spec(parse_cells([("t", "gpu,M,BLOCK,best_us,med_us\n" + rows)]))
    assert spec.log.time == "med_us"
