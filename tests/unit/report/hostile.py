"""A run in which every text that may come from outside tries to be markup."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.builders import make_proof, make_run, make_spec, make_trial

from tunnelbench.model.result import Check, Outcome, RunRecord, TrialRecord, Verdict

HOSTILE = (
    "a|b\r\n|/2. c\n\n<b>x</b><script>alert(1)</script> *y* _z_ `q` [[Wiki]] {{toc}} !i.png! @code@ "
    '"t":http://e.example '
    "http://e.example www.e.example #12 -del- +ins+ ^s^ ~s~ ==n== &amp; &#124; \\| $m$ [red]r[/] GRE(x) "
    "\x1b[31m\x07\x9b\u202e\u2028end"
)


def hostile_run() -> tuple[RunRecord, tuple[TrialRecord, ...]]:
    """Every text that may come from outside is hostile."""
    proof = replace(make_proof(), versions={f"router.{HOSTILE}": HOSTILE, "server.openvpn": HOSTILE})
    checks = (Check(HOSTILE, Verdict.DOUBTFUL, HOSTILE, 6), Check("x", Verdict.NOTE, HOSTILE, 1))
    tunnel = replace(make_spec().tunnel, name=HOSTILE, kind=HOSTILE, options={HOSTILE: HOSTILE})
    records = [
        make_trial(replace(make_spec(1), tunnel=tunnel), proof=proof, checks=checks),
        make_trial(replace(make_spec(2, payload_bytes=76), tunnel=tunnel), outcome=Outcome.REFUSED, reason=HOSTILE),
        make_trial(replace(make_spec(3), tunnel=replace(tunnel, name=f"={HOSTILE}")), proof=proof),
    ]
    run = make_run(
        run_id=HOSTILE,
        plan_name=HOSTILE,
        plan_title=HOSTILE,
        testbed_name=HOSTILE,
        testbed_text=f"kind = '''{HOSTILE}'''",
        host_facts={"cpu_model": HOSTILE, "cpus": HOSTILE, "governor": [HOSTILE], "kernel": HOSTILE},
        notes=(HOSTILE,),
        tunnelbench_version=HOSTILE,
        started_at=HOSTILE,
        status=HOSTILE,
    )
    return run, tuple(records)
