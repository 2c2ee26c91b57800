"""Commands that ship: emit, build, check."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from heurgen.base.errors import UsageError, printable, quoted
from heurgen.cli.common import (
    Command,
    capability_option,
    examples,
    files_data,
    finish,
    json_option,
    note,
    output_option,
    path_argument,
    print_json,
    progress,
    say,
    write,
)

if TYPE_CHECKING:
    from heurgen.base.figures import Summary
    from heurgen.ship.project import Made


@click.command(
    epilog=examples(
        "heurgen emit model.json -o heuristics.py",
        "heurgen emit model.json -o device_heuristics.py --target triton --vendor nvidia --parameter BLOCK_M",
        "heurgen emit model.json -o heuristics.hpp --target cpp",
        "heurgen emit model.json -o tuned/ --target vllm-moe --at E=128,N=768,dtype=fp8_w8a8",
    )
)
@path_argument("MODEL")
@output_option("PATH")
@click.option(
    "--target",
    metavar="T",
    default="python",
    show_default=True,
    help="python, triton, cpp, json, triton-autotune, inductor, vllm-moe or aiter-json; see docs/targets.md.",
)
@click.option(
    "--vendor",
    metavar="V",
    help="Vendor of a target for one; needed where the model has several and no --device tells it.",
)
@click.option("--device", metavar="D", help="Device whose selector to take, and that files are named after.")
@capability_option
@click.option(
    "--parameter",
    "parameters",
    multiple=True,
    metavar="P",
    help="Parameter of a triton module; default: all but floats.",
)
@click.option(
    "--at",
    multiple=True,
    metavar="NAME=VALUE,...",
    help="What a config file is for; once per file of a folder.",
)
@click.option(
    "--map",
    "names",
    multiple=True,
    metavar="FIELD=NAME",
    help="What a field of the launcher is called in the model.",
)
@click.option(
    "--approximate", is_flag=True, help="Write files whose format cannot say the model's answer everywhere."
)
@json_option
def emit(
    model: str,
    output: str,
    target: str,
    vendor: str | None,
    device: str | None,
    capability: str | None,
    parameters: tuple[str, ...],
    at: tuple[str, ...],
    names: tuple[str, ...],
    approximate: bool,
    as_json: bool,
) -> None:
    """Render a model for a launcher: a Python module, a C++ header, a table, or another project's config files."""
    from heurgen.base.writing import check_outputs, make_folder, write_all
    from heurgen.ir.schema import read_model
    from heurgen.render import registry
    from heurgen.render.config_files import left_behind
    from heurgen.render.target import Request, check_module_name
    from heurgen.ship.project import COMMAND, is_built

    check_outputs([output], [model], folders=True)
    check_module_name(output)
    request = Request(
        command=COMMAND if is_built(output) else Request().command,
        vendor=vendor,
        device=device,
        capability=capability,
        parameters=parameters,
        at=tuple(_pairs("--at", text) for text in at),
        names=_pairs("--map", ",".join(names)) if names else {},
        approximate=approximate,
    )
    rendered = registry.emit(read_model(model), target, request)
    note(rendered.notes)
    texts = {
        f"{output.rstrip('/')}/{name}" if name else output: text for name, text in rendered.files.items()
    }
    check_outputs(texts, [model])
    for path in texts if list(rendered.files) != [""] else ():
        make_folder(Path(path).parent)
    left = left_behind(Path(output), rendered.files)
    written = write_all(texts)
    note(
        f"{output.rstrip('/')}/{name} is of an earlier emit and stays, but the manifest lists it no longer: delete it, "
        "or name a folder of its own"
        for name in left
    )
    if as_json:
        print_json({"files": files_data(written)})
    for path, new in () if as_json else written.items():
        say(f"{'wrote' if new else 'unchanged'} {printable(path)}")


def _pairs(option: str, text: str) -> dict[str, str]:
    """`E=128,block_shape=[128,128]` as a mapping; a comma inside brackets is part of a value."""
    found: dict[str, str] = {}
    for part in re.split(r",(?![^\[\]]*\])", text):
        name, equals, value = part.partition("=")
        if not equals or not name or name in found:
            raise UsageError(
                f"{option} {text}: expected NAME=VALUE,..., each name once, found {quoted(part)}"
            )
        found[name] = value
    return found


def _project_argument(command: Command) -> Command:
    return click.argument("project", default="heurgen.toml", metavar="[heurgen.toml]")(command)


@click.command(epilog=examples("heurgen build", "heurgen build path/to/heurgen.toml"))
@_project_argument
@json_option
def build(project: str, as_json: bool) -> None:
    """Make every model and module that the project file names; unchanged files are not touched."""
    from heurgen.base.text import summary_tables
    from heurgen.ship.project import build as run
    from heurgen.ship.project_file import read_project
    from heurgen.ship.proofs import left_behind

    groups: dict[str, Summary] = {}
    left = left_behind(Path(project), [heuristic.model for heuristic in read_project(project)])
    built = run(project, progress)
    note(f"{file} is of no heuristic any more, and stays: delete it and its module" for file in left)
    if as_json:
        note(text for made, _ in built for text in (*made.notes, *_warnings(made)))
        print_json({"heuristics": [_made_data(made, files) for made, files in built]})
        return
    for made, files in built:
        note((*made.notes, *_warnings(made)))
        if made.proved:
            note([f"{made.heuristic.model}: proved current by heurgen.lock, not trained again"])
        for file, written in files.items():
            say(f"{'wrote' if written else 'unchanged'}  {printable(file)}")
        if made.score is not None:
            groups |= {f"{made.module.kernel}: {name}": s for name, s in made.score.groups.items()}
    if groups:
        say("\n" + summary_tables("slowdown on the training log", groups))


def _warnings(made: Made) -> list[str]:
    """What `heurgen train` would say is wrong with what ships; of a model that was trained just now."""
    if made.proved or made.score is None:
        return []
    from heurgen.ship.remarks import warnings

    return [
        f"{made.module.kernel}: {text}" for selector in made.module.selectors for text in warnings(selector)
    ]


def _made_data(made: Made, files: Mapping[Path, bool]) -> dict[str, Any]:
    groups = made.score.groups if made.score is not None else {}
    return {
        "kernel": made.module.kernel,
        "files": files_data(files),
        "proved": made.proved,
        "slowdown": {name: asdict(found) for name, found in groups.items()},
        "notes": list(made.notes),
    }


@click.command(epilog=examples("heurgen check", "heurgen check --stale"))
@_project_argument
@click.option("--retrain", is_flag=True, help="Train also what heurgen.lock proves current.")
@click.option("--stale", is_flag=True, help="Warn of logs measured with another driver, torch or Triton.")
@json_option
def check(project: str, retrain: bool, stale: bool, as_json: bool) -> None:
    """Are the shipped models and modules what the logs give, untouched by hand? Exit status 1 if not.

    What heurgen.lock proves current (same logs, spec, options, version) is rendered and compared, not trained.
    """
    from heurgen.ship.project import check as run
    from heurgen.ship.project_file import read_project
    from heurgen.ship.stale import stale as versions

    findings, notes = run(project, retrain, progress)
    notes = [*notes, *(versions(read_project(project)) if stale else ())]
    note(notes)
    if as_json:
        found = [{"path": str(f.path), "problem": f.problem, "diff": f.diff} for f in findings]
        print_json({"findings": found, "notes": notes})
    for finding in () if as_json else findings:
        say(f"{printable(finding.path)}: {finding.problem}")
        write(finding.diff)
    if findings:
        finish("project-file")
    if not as_json:
        absent = any(heuristic.unseen for heuristic in read_project(project))
        limit = ", as far as they are here" if absent else ""
        say(f"everything shipped is what the logs give{limit}")


COMMANDS = (emit, build, check)
