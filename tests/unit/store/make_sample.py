"""Write the sample store of the present format: `python -m tests.unit.store.make_sample`.

The sample of a released format stays as it is, because it stands for the files that users have.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.unit.builders import make_records, make_run, make_speeds
from tests.unit.soak_builders import sample_soak

from tunnelbench.store.schema import STORE_FORMAT
from tunnelbench.store.store import Store

SAMPLES = Path(__file__).with_name("samples")
TUNNELS = {"testers back to back", "none", "openvpn AES-128-GCM", "tinc BF-CBC, SHA-1", "wireguard"}


def put_soak(store: Store, run_id: str) -> None:
    """Store the sample soak part by part."""
    soak, chunks = sample_soak()
    tables = store.soaks(run_id)
    for part in soak.parts:
        tables.begin_part(soak, replace(part, ended_at=None, ended=""))
        own = [chunk for number, chunk in chunks if number == part.number]
        for number, chunk in enumerate(own):
            tables.add_chunk(soak.spec.sequence, part.number, number, chunk)
        if part.ended_at:
            tables.end_part(soak, part)


def main() -> None:
    """Store one run of one round with measured, refused and unavailable trials."""
    path = SAMPLES / f"format-{STORE_FORMAT}.sqlite"
    run, records = make_run(), make_records(rounds=1)
    path.unlink(missing_ok=True)
    with Store.open(path) as store:
        store.begin_run(run)
        for record in records:
            if record.spec.tunnel.name in TUNNELS:
                store.add_trial(run.run_id, record)
        for speed in make_speeds():
            store.add_cipher_speed(run.run_id, speed)
        put_soak(store, run.run_id)
        store.end_run(run.run_id, "done", str(run.ended_at))


if __name__ == "__main__":
    main()
