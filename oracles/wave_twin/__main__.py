"""python -m oracles.wave_twin START COUNT: the product and the twin on random Wave kernels, side by side."""

from __future__ import annotations

import argparse
import json
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from typing import IO, Any

from .build import Subject, compiled
from .gates import dense, gated
from .generate import program
from .judge import Verdict, judge
from .program import show
from .setting import Unsupported

EXPLAINED = 3  # so many programs of each kind of disagreement are printed in full


# A statement that writes one byte from two waves or lanes: the product prints the assumption that the values are equal.
ASSUMED = frozenset({"same-waves", "same-lanes"})


def judged(subject: Subject) -> Verdict:
    """The twin's verdict, with the one reading of the model that a target file decides (`fence.waits`)."""
    from .product import wait_is_fence

    fences = frozenset({"wait"}) if wait_is_fence(subject.setting.target) else frozenset[str]()
    return judge(subject.trace, subject.setting, fences)


def compare(verdict: Verdict, proved: bool) -> str:
    """One word for what the two say, in the order of how bad it is."""
    if proved and verdict.kinds and verdict.kinds <= ASSUMED:
        return "assumed: " + "+".join(sorted(verdict.kinds))
    if proved and not verdict.safe:
        return "FALSE PROOF " + "+".join(sorted(verdict.kinds))
    if not proved and verdict.safe:
        return "imprecise"
    return "agree: right" if proved else "agree: wrong"


def placed(seed: int) -> Iterator[dict[str, Any]]:
    """The product synchronizes; the twin judges what came out, and `check` is asked as well."""
    from .product import errors, synchronize

    result = synchronize(program(seed))
    verdict = judged(result.subject)
    if result.proved:
        yield row(seed, "sync", compare(verdict, True), verdict, result.first_line)
    else:
        best = compiled(dense(program(seed)), "unplaced")
        word = "could be placed" if judged(best).safe else "nothing can order it"
        yield row(seed, "sync", f"refused: {word}", verdict, result.why_not)
    codes = errors(result.subject)
    yield row(seed, "check", compare(verdict, not codes), verdict, " ".join(codes))


def given(seed: int) -> Iterator[dict[str, Any]]:
    """Barriers of chance, or the product's with one taken out: `check` against the twin."""
    from .product import damage, errors, synchronize

    subject: Subject
    kind = "given"
    if seed % 3 == 2:
        subject = synchronize(program(seed)).subject
        kind = "damaged" if damage(subject, seed) else "undamaged"
    else:
        subject = compiled(gated(program(seed), seed), "unplaced")
    codes = errors(subject)
    verdict = judged(subject)
    yield row(seed, kind, compare(verdict, not codes), verdict, " ".join(codes))


def alone(seed: int) -> Iterator[dict[str, Any]]:
    """The twin on its own: without barriers, and with barriers of chance."""
    for kind, kernel in (("bare", program(seed)), ("gated", gated(program(seed), seed))):
        subject = compiled(kernel, "unplaced")
        verdict = judge(subject.trace, subject.setting)
        yield row(seed, kind, "safe" if verdict.safe else "unsafe " + "+".join(sorted(verdict.kinds)), verdict, "")


def row(seed: int, kind: str, word: str, verdict: Verdict, said: str) -> dict[str, Any]:
    problems = [[p.kind, p.first, p.second, p.at, p.who] for p in verdict.problems[:4]]
    return {"seed": seed, "kind": kind, "word": word, "said": said, "twin": problems, "arrivals": verdict.barriers}


def explain(found: dict[str, Any]) -> None:
    seed = found["seed"]
    kernel = gated(program(seed), seed) if found["kind"] == "given" else program(seed)
    print(f"--- seed {seed}, {found['kind']}: {found['word']}; product: {found['said'] or 'nothing'}")
    print(show(kernel))
    for problem in found["twin"]:
        print("   twin:", *problem)


def run(options: argparse.Namespace, out: IO[str] | None) -> int:
    one = given if options.given else alone if options.no_sync else placed
    words: Counter[tuple[str, str]] = Counter()
    began, started = time.process_time(), time.monotonic()
    done = 0
    for seed in range(options.start, options.start + options.count):
        if options.seconds and time.monotonic() - started > options.seconds:
            break
        done += 1
        try:
            rows = list(one(seed))
        except Unsupported as why:
            rows = [{"seed": seed, "kind": "-", "word": f"unsupported: {why}", "said": "", "twin": []}]
        except Exception as error:  # a crash of the product, or of Wave, is a finding of its own
            place = traceback.extract_tb(error.__traceback__)[-1].filename
            word = f"crash in {'Wave' if 'wave_lang' in place else 'the product'}: {type(error).__name__}"
            rows = [{"seed": seed, "kind": "-", "word": word, "said": str(error), "twin": []}]
        for found in rows:
            key = (found["kind"], found["word"])
            words[key] += 1
            if out is not None:
                out.write(json.dumps(found) + "\n")
                out.flush()
            bad = not found["word"].startswith(
                ("agree", "assumed", "safe", "unsafe", "refused: nothing", "crash in Wave")
            )
            if bad and words[key] <= options.explain:
                explain(found)
    for (kind, word), count in sorted(words.items()):
        print(f"{count:7d}  {kind:10s} {word}")
    print(f"{done} seeds, {(time.process_time() - began) / max(1, done):.3f} s of one core for each")
    return 1 if any(word.startswith("FALSE") for _, word in words) else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m oracles.wave_twin")
    parser.add_argument("start", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("--no-sync", action="store_true", help="the twin alone")
    parser.add_argument("--given", action="store_true", help="barriers of chance, and `check` of the product")
    parser.add_argument("--explain", type=int, default=EXPLAINED, help="programs to print of each disagreement")
    parser.add_argument("--seconds", type=float, default=0, help="stop after so much time")
    parser.add_argument("-o", dest="out", help="a row of JSON for each answer")
    options = parser.parse_args()
    if options.out is None:
        return run(options, None)
    with open(options.out, "a", encoding="utf-8") as out:
        return run(options, out)


if __name__ == "__main__":
    sys.exit(main())
