"""The codes of findings. A code never changes its meaning; each has a page in `docs/codes/`.

TG0xx  the text has no meaning                      exit status 2
TG1xx  races and inversions                         exit status 1
TG2xx  barriers that are not met: hangs             exit status 1
TG3xx  beyond the memory or the target              exit status 1
TG4xx  advice                                       exit status 0
TG5xx  a target file is wrong                       exit status 2
TG6xx  a graph or a plan is wrong                   exit status 2
"""

from __future__ import annotations

CODES: dict[str, str] = {
    "TG001": "unexpected text",
    "TG002": "unknown operation",
    "TG003": "undefined value",
    "TG004": "name defined twice",
    "TG005": "bad type",
    "TG006": "nested too deep",
    "TG007": "no kernel available",
    "TG008": "unknown size",
    "TG009": "value used outside its region",
    "TG010": "shapes do not match",
    "TG011": "element types do not match",
    "TG012": "operand of the wrong kind",
    "TG013": "carried values do not match",
    "TG014": "results of a region do not match",
    "TG015": "index neither affine nor marked inexact",
    "TG016": "number out of range",
    "TG017": "wrong number of dimensions",
    "TG018": "wave groups overlap or are empty",
    "TG019": "a package that is not installed",
    "TG020": "assumptions that no sizes satisfy",
    "TG021": "default sizes break the assumptions",
    "TG022": "inputs that do not fit the kernel",
    "TG023": "larger than a command takes",
    "TG024": "source that does not compile",
    "TG025": "operation that cannot be built",
    "TG101": "read while another wave may be writing",
    "TG102": "written while another wave may be reading",
    "TG103": "written while another wave may be writing",
    "TG104": "always in the wrong order",
    "TG105": "asynchronous access not complete in its own wave",
    "TG106": "accesses that may be unordered",
    "TG107": "count that does not wait for what it names",
    "TG108": "unordered lanes of one wave",
    "TG109": "async proxy behind generic reads without a fence",
    "TG201": "barrier under a lane-divergent condition",
    "TG202": "waves arrive a different number of times",
    "TG203": "signalled twice without a wait in between",
    "TG204": "wait without a signal",
    "TG205": "signal without a wait",
    "TG206": "barrier id that the target does not have",
    "TG207": "conditional barriers that do not match",
    "TG208": "signal left over on one path only",
    "TG209": "halves of an odd number of waves",
    "TG210": "kind of barrier that the target does not have",
    "TG211": "wave at a barrier that is not for it",
    "TG221": "waves wait forever",
    "TG301": "outside the shared buffer",
    "TG302": "outside the global array",
    "TG303": "more shared memory than the target has",
    "TG304": "slot that the buffer does not have",
    "TG305": "operation that the target does not have",
    "TG306": "matrix operation that the target does not have",
    "TG307": "counter that the target does not have",
    "TG308": "live buffers at the same bytes",
    "TG309": "buffer used after dealloc",
    "TG310": "count beyond the counter's maximum",
    "TG311": "more waves than the target has",
    "TG312": "index without a value",
    "TG401": "barrier that orders nothing",
    "TG402": "barrier that only orders the schedule",
    "TG403": "footprint not known exactly",
    "TG404": "barrier that does more than needed",
    "TG405": "wait for more than needed",
    "TG406": "redundant wait or fence",
    "TG407": "operation without a description",
    "TG501": "a target file cannot be read",
    "TG502": "a target file has a key that does not exist",
    "TG503": "a fact of a target has no source",
    "TG504": "a fact of a target names a source that the file does not list",
    "TG505": "a value in a target file has the wrong type",
    "TG506": "a value in a target file is out of range",
    "TG507": "two targets share a name",
    "TG508": "no target has this name",
    "TG509": "a target file lacks a key",
    "TG510": "an operation names a counter that the file does not declare",
    "TG511": "a target file is not valid TOML",
    "TG601": "invalid graph text",
    "TG602": "graph that is not well-formed",
    "TG603": "edit that does not fit the kernel",
}

# A generic read, then a write of the async proxy, with an arrival and a wait but no fence between the proxies.
PROXY_READ = "TG109"
# What the user may turn down to a note: the model asks for the fence, and kernels in production do without.
ALLOWED = frozenset((PROXY_READ,))
