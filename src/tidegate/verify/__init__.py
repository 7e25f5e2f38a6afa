"""The verifier: is every conflicting pair of accesses ordered, for all trip counts and all waves?

    paths backwards from each access ─▶ what nothing orders before it ─▶ do they meet in a byte? (isl)

It shares no code with hazards, placement, waits and schedule.
"""
