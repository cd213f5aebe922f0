"""SQL of the table of periodic jobs, and of the function that turns a due time into jobs."""

from __future__ import annotations

SCHEDULE_TABLE = (
    """
CREATE TABLE tunnelbench_schedule (
    schedule_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    cron text NOT NULL,
    testbed text NOT NULL,
    plan_name text NOT NULL,
    plan_text text NOT NULL,
    repetitions integer NOT NULL CHECK (repetitions BETWEEN 1 AND 10000),
    priority integer NOT NULL,
    expected_s double precision NOT NULL,
    deadline_s double precision,
    next_due timestamptz NOT NULL
)
""",
    # A worker may not submit jobs of its own. This function has the rights of the tables' owner, and stores only jobs
    # that a schedule names. The condition on next_due lets one of several workers have its way for each due time.
    """
CREATE FUNCTION tunnelbench_take_due(_schedule_id bigint, _due timestamptz, _next timestamptz) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    taken tunnelbench_schedule;
BEGIN
    UPDATE tunnelbench_schedule SET next_due = _next
    WHERE schedule_id = _schedule_id AND next_due = _due AND _due <= now() AND _next > now()
    RETURNING * INTO taken;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    INSERT INTO procrastinate_jobs (queue_name, task_name, priority, lock, args)
    SELECT taken.testbed, 'tunnelbench.run', taken.priority, 'testbed ' || taken.testbed,
        jsonb_build_object(
            'plan_name', taken.plan_name, 'plan_text', taken.plan_text, 'testbed', taken.testbed,
            'expected_s', taken.expected_s,
            'run_id', to_char(now() AT TIME ZONE 'UTC', 'YYYYMMDD-HH24MISS') || '-' || left(gen_random_uuid()::text, 6)
        ) || CASE WHEN taken.deadline_s IS NULL THEN '{}'::jsonb ELSE jsonb_build_object('deadline',
            to_char(_due AT TIME ZONE 'UTC' + make_interval(secs => taken.deadline_s),
                'YYYY-MM-DD"T"HH24:MI:SS"+00:00"')
        ) END
    FROM generate_series(1, taken.repetitions);
    RETURN taken.repetitions;
END;
$$
""",
    "REVOKE ALL ON FUNCTION tunnelbench_take_due FROM PUBLIC",
)
"""Statements that make the table and the function."""
