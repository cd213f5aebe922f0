"""A run in the folder `results/` of the project: its place, its checks, and the text of its pull request.

`place` names the file. `judge` has the checks of a run: `device` checks what its router was, `planned` compares it with
its plan, `names` checks its names, `redundancy` compares figures that follow from each other, and `published` compares
them with the published results of the device. `pull_request` writes the text.
docs/contributing-results.md describes all of them.
"""
