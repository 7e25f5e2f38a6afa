"""`tidegate sync`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidegate.cli.bars import progress_bar
from tidegate.cli.complete import complete_sync_stage, complete_sync_strategy, complete_words
from tidegate.cli.grouping import MOST_FINDINGS, group
from tidegate.cli.launch import LaunchAsked, launch_of
from tidegate.cli.options import (
    AllowOption,
    ArgOption,
    AtomicsOption,
    BlockOption,
    FileArg,
    GridOption,
    JsonOption,
    MaxFindings,
    OutOption,
    StaggerOption,
    TargetOption,
)
from tidegate.cli.say import emit_json, print_findings, print_stage, say, say_diff, say_program, status_of, stop, write
from tidegate.diag import visible

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidegate.diag import Finding, Sources
    from tidegate.files import Loaded
    from tidegate.synchronize import Synchronized, SyncOptions, Written

STAGES_HELP = "`kernel`, `graph`, `footprints`, `hazards`, `plan`, `verify` or `judge`"


def sync_command(
    file: FileArg,
    target: TargetOption = None,
    allow: AllowOption = None,
    strategy: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="`minimal`: the least weight, whole barriers. `intersecting`: split pairs, where the target has "
            "them. `optimal`: the least weight on any graph, with a bound. Default: split pairs where the target has "
            "them, else `minimal`; with copies in flight, more barriers where later waits pay by the cost model.",
            show_default=False,
            autocompletion=complete_sync_strategy,
        ),
    ] = "",
    output: OutOption = None,
    as_json: JsonOption = False,
    diff: Annotated[bool, typer.Option("--diff", help="Print a unified diff instead of the program.")] = False,
    remove_redundant: Annotated[
        bool,
        typer.Option(
            "--remove-redundant",
            help="Remove barriers that the proof does not need, unless they are pinned.",
        ),
    ] = False,
    tighten_waits: Annotated[
        bool,
        typer.Option(
            "--tighten-waits",
            help="Loosen existing waits for copies to the largest safe counts, or remove them; by default they "
            "are kept.",
        ),
    ] = False,
    merge_waits: Annotated[
        str,
        typer.Option(
            metavar="WHEN",
            help="Whether a wait for copies may move earlier to share a barrier: `model`, where it pays by the cost "
            "model; `never`; `always`.",
            autocompletion=complete_words("model", "never", "always"),
        ),
    ] = "model",
    async_deps: Annotated[
        bool,
        typer.Option(
            "--async-deps",
            help="Name the copies of each wait as values: tokens that loops and conditionals pass on.",
        ),
    ] = False,
    atomics: AtomicsOption = "commute",
    stagger: StaggerOption = 0,
    print_after: Annotated[
        str | None,
        typer.Option(
            metavar="STAGE", help=f"Print the result of a stage: {STAGES_HELP}.", autocompletion=complete_sync_stage
        ),
    ] = None,
    stop_after: Annotated[
        str | None,
        typer.Option(
            metavar="STAGE",
            help="Stop after a stage; no program is written before `verify`.",
            autocompletion=complete_sync_stage,
        ),
    ] = None,
    force_barriers: Annotated[
        bool, typer.Option("--force-barriers", help="Insert a barrier before every access, needed or not.")
    ] = False,
    bisect: Annotated[int | None, typer.Option(metavar="N", help="Apply only the first N edits.")] = None,
    no_judge: Annotated[bool, typer.Option("--no-judge", help="Do not verify or run the result.")] = False,
    time_limit: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="Time limit for `--strategy optimal`; 20 by default."),
    ] = None,
    max_findings: MaxFindings = MOST_FINDINGS,
    block: BlockOption = None,
    grid: GridOption = None,
    arg: ArgOption = None,
) -> None:
    """Insert the barriers and waits that a program needs, and prove the result.

    The program goes to the output, or to OUT; the report goes to the error stream, or to the output if there is an OUT.
    Comments and layout of a `.tide` file are preserved; each edit is annotated with its reason. FILE changes only if
    OUT names it. A Python kernel becomes `.tide` text.

    Exit status: 0 clean, 1 findings remain, 2 bad input.

    Examples: `tidegate sync gemm.tide -o gemm.tide`, `tidegate sync gemm.py::gemm --target gfx1201 > gemm.tide`,
    `tidegate sync gemm.tide --diff`, `tidegate sync gemm.tide --strategy optimal --time-limit 60`,
    `tidegate sync gemm.tide --print-after plan --stop-after plan`, `tidegate sync kernel.ptx --block 256 -o out.ptx`,
    `tidegate sync kernel.s -o out.s`
    """
    from tidegate.passes import check_stage
    from tidegate.synchronize import SYNC, SyncOptions

    check_stage(print_after, SYNC)
    check_stage(stop_after, SYNC)
    for stage in (print_after, stop_after):
        if no_judge and stage in ("verify", "judge"):
            stop(f"`--no-judge` skips the stage `{stage}`", "drop one of them")
    if time_limit is not None and strategy != "optimal":
        stop("`--time-limit` needs `--strategy optimal`", "other strategies have no limit")
    options = SyncOptions(
        strategy,
        atomics,
        stagger,
        remove_redundant,
        tighten_waits,
        merge_waits,
        async_deps,
        force_barriers,
        bisect,
        not no_judge,
        20.0 if time_limit is None else time_limit,
    )
    options.check()
    if diff and (output is not None or as_json):
        stop("`--diff` replaces the printed program or document", "drop `--diff`, or `--output` and `--json`")
    launch = launch_of([file], target, block=block, grid=grid, arg=arg, assembly=True, allow=allow)
    work = _SyncedFile(file, launch, output, as_json, options, print_after, stop_after, diff, max_findings)
    work.run(target)
    raise typer.Exit(work.status())


class _SyncedFile:
    """One file on its way. What is said goes to the error stream if the program goes to the output."""

    def __init__(
        self,
        file: str,
        launch: LaunchAsked,
        output: Path | None,
        as_json: bool,
        options: SyncOptions,
        print_after: str | None,
        stop_after: str | None,
        diff: bool,
        most: int,
    ) -> None:
        self.diff, self.before, self.most = diff, "", most
        self.file, self.launch, self.output, self.as_json, self.options = file, launch, output, as_json, options
        self.print_after, self.stop_after = print_after, stop_after
        ends_early = stop_after is not None and stop_after not in ("verify", "judge")
        self.err = output is None and not as_json and not ends_early
        self.results: list[Synchronized] = []
        self.bad: list[Finding] = []
        self.text: str | None = None

    def run(self, target: str | None) -> None:
        from tidegate.diag import BadInput
        from tidegate.session import sessions_of
        from tidegate.synchronize import propose

        try:
            _check_kind(self.file)
            loaded = self.launch.load(self.file, as_compiled=False)
            self.check(loaded)
            units = sessions_of(loaded, target, self.launch.allow)
            _check_output(self.output, loaded)
        except BadInput as bad:
            if not self.as_json:
                raise
            self.bad += bad.findings
            self.say_json()
            return
        for unit in units:
            with progress_bar(f"synchronizing @{unit.name}", quiet=self.as_json):
                result = propose(
                    unit,
                    self.options,
                    print_after=self.print_after,
                    stop_after=self.stop_after,
                    show=self.show,
                )
            self.results.append(result)
        sources = loaded.sources
        for result, written in self.write(loaded):
            self.judge(result, written)
        self.finish(sources)

    def check(self, loaded: Loaded) -> None:
        """Final instructions are edited where they stand: nothing is placed, nor are waits merged or named."""
        if loaded.ptx is None and loaded.amdgcn is None:
            return
        given = self.options
        from tidegate.synchronize import SyncOptions

        default = SyncOptions(
            remove_redundant=given.remove_redundant,
            tighten_waits=given.tighten_waits,
            bisect=given.bisect,
            judge=given.judge,
        )
        if given != default:
            which = "PTX" if loaded.amdgcn is None else "assembly"
            said = f"{which} is synchronized in place: options of placement have no effect"
            stop(said, "give only `--diff`, `--bisect`, `--no-judge`, `--print-after` or `--stop-after`")

    def show(self, stage: str, text: str) -> None:
        if not self.as_json:
            print_stage(stage, text.rstrip(), err=self.err)

    def say(self, text: str) -> None:
        say(text, err=self.err)

    # --- the program ---

    def write(self, loaded: Loaded) -> Iterator[tuple[Synchronized, Written]]:
        """Makes the text, if every program has one; gives the programs as they stand there.

        Without OUT the text has no name: places are those of the given file, where the text says the same as the plan.
        """
        from tidegate.synchronize import read_back, write_programs

        if any(each.made is None for each in self.results):
            return
        is_text = Path(loaded.file).suffix.lower() != ".py"
        self.before = loaded.sources.texts[loaded.file] if is_text else ""
        self.text = write_programs(self.results, self.before, loaded.file)
        name = str(self.output) if self.output is not None else f"{loaded.file}, as written"
        loaded.sources.texts[name] = self.text
        written = read_back(self.results, self.text, name, keep_places=self.output is None)
        yield from zip(self.results, written, strict=True)

    def judge(self, result: Synchronized, written: Written) -> None:
        from tidegate.synchronize import judge_result

        if self.output is None and not self.options.judge:
            return
        with progress_bar(f"judging @{result.unit.name}", quiet=self.as_json) as progress:
            judge_result(
                result,
                written,
                print_after=self.print_after,
                stop_after=self.stop_after,
                show=self.show,
                progress=progress,
            )

    def finish(self, sources: Sources) -> None:
        from tidegate.cli.sync_report import report

        if self.text is not None and self.output is not None:
            write(self.output, self.text)
        elif self.text is not None and self.diff:
            say_diff(self.before, self.text, self.file)
        elif self.text is not None and not self.as_json:
            say_program(self.text, self.before)
        if self.as_json:
            self.say_json()
            return
        for result in self.results:
            found = group(_findings(result), self.most)
            print_findings(found.shown, sources, err=self.err)
            for line in report(result, self.most, printed=self.print_after):
                self.say(line)
        if self.output is not None and self.text is None and self.stop_after is None:
            self.say(f"`{visible(str(self.output))}` is not written")

    def say_json(self) -> None:
        from tidegate.cli.sync_report import to_json

        groups = [group(found, self.most) for found in (self.bad, *map(_findings, self.results))]
        emit_json(to_json(self.file, self.output, self.text, self.results, groups))

    def status(self) -> int:
        return max(status_of(self.bad), *(status_of(_findings(each)) for each in self.results), 0)


def _findings(result: Synchronized) -> list[Finding]:
    """Of the program as it is now, if it was judged; else of the one that was given."""
    from tidegate.synchronize.said import find_widened

    return [*(result.checked.findings if result.checked else result.findings), *find_widened(result)]


def _check_kind(file: str) -> None:
    from tidegate.files import CUDA

    path = Path(file.partition("::")[0])
    if path.suffix.lower() in CUDA:
        name = path.with_suffix(".ptx").name
        stop(
            "`sync` does not rewrite CUDA source",
            "`tidegate check --advice` names redundant statements; or write the PTX with "
            f"`tidegate check ... --keep-ptx {name}`, and run `tidegate sync {name}`",
        )


def _check_output(output: Path | None, loaded: Loaded) -> None:
    """What is written must be readable under its name."""
    from tidegate.files import ASSEMBLY

    if output is None:
        return
    suffix = output.suffix.lower()
    wanted = ".sync" if loaded.graph is not None else ".ptx" if loaded.ptx is not None else ".tide"
    if loaded.amdgcn is not None:
        wanted = suffix if suffix in ASSEMBLY else ".s"
    if loaded.ttgir is not None:
        wanted = suffix if suffix == ".mlir" else ".ttgir"
    if os.path.isdir(output):
        stop(f"`{output}` cannot be written: is a directory")
    if suffix != wanted and suffix in (
        *(".py", ".tide", ".sync", ".ttgir", ".mlir", ".ptx", ".cu", ".cuh"),
        *ASSEMBLY,
    ):
        stop(f"`{output}` would hold `{wanted}` text", f"name a `{wanted}` file")
