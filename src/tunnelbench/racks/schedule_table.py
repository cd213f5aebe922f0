"""SQL of the table of periodic jobs, and of the functions that turn a due time into jobs."""

from __future__ import annotations

SCHEDULE_TABLE = (
    # A worker cannot read a time that Python does not know, and a deadline that is no number ends its query.
    """
CREATE TABLE tunnelbench_schedule (
    schedule_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    cron text NOT NULL,
    minutes integer[],
    hours integer[],
    days integer[],
    months integer[],
    weekdays integer[],
    testbed text NOT NULL,
    plan_name text NOT NULL,
    plan_text text NOT NULL,
    repetitions integer NOT NULL CHECK (repetitions BETWEEN 1 AND 10000),
    priority integer NOT NULL,
    expected_s double precision NOT NULL,
    deadline_s double precision CHECK (deadline_s BETWEEN 0 AND 1e9),
    next_due timestamptz NOT NULL CHECK (next_due BETWEEN '2000-01-01' AND '3000-01-01')
)
""",
    # The database computes due times, because a worker could name one that never comes, or thousands. A list of values
    # that is NULL has all values. As in crontab(5), a day needs to be in one of two lists of days only. A year of nine
    # has a 29 February. The second of two days has times that are not over.
    """
CREATE FUNCTION tunnelbench_next_due(_schedule tunnelbench_schedule, _after timestamptz) RETURNS timestamptz
LANGUAGE sql STABLE SET search_path = public, pg_temp AS $$
    SELECT found.due AT TIME ZONE 'UTC'
    FROM (
        SELECT day
        FROM generate_series(
            date_trunc('day', _after AT TIME ZONE 'UTC'), _after AT TIME ZONE 'UTC' + interval '9 years', '1 day'
        ) AS day,
        LATERAL (SELECT extract(day FROM day) = ANY (_schedule.days) AS is_day,
                        extract(dow FROM day) = ANY (_schedule.weekdays) AS is_weekday) AS listed
        WHERE coalesce(extract(month FROM day) = ANY (_schedule.months), true)
            AND coalesce(is_day OR is_weekday, is_day, is_weekday, true)
        ORDER BY day LIMIT 2
    ) AS days,
    generate_series(0, 23) AS hour, generate_series(0, 59) AS minute,
    LATERAL (SELECT day + make_interval(hours => hour, mins => minute) AS due) AS found
    WHERE coalesce(hour = ANY (_schedule.hours), true) AND coalesce(minute = ANY (_schedule.minutes), true)
        AND found.due > _after AT TIME ZONE 'UTC'
    ORDER BY found.due LIMIT 1
$$
""",
    # A worker may not submit jobs of its own. This function has the rights of the tables' owner, and stores only jobs
    # that a schedule names. The condition on next_due lets one of several workers have its way for each due time.
    """
CREATE FUNCTION tunnelbench_take_due(_schedule_id bigint, _due timestamptz) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    taken tunnelbench_schedule;
BEGIN
    UPDATE tunnelbench_schedule AS schedule
    SET next_due = coalesce(tunnelbench_next_due(schedule, now()), now() + interval '9 years')
    WHERE schedule_id = _schedule_id AND next_due = _due AND _due <= now()
    RETURNING * INTO taken;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    INSERT INTO procrastinate_jobs (queue_name, task_name, priority, lock, args)
    SELECT taken.testbed, 'tunnelbench.run', taken.priority, 'testbed ' || taken.testbed,
        jsonb_build_object(
            'plan_name', taken.plan_name, 'plan_text', taken.plan_text, 'testbed', taken.testbed,
            'expected_s', taken.expected_s,
            'run_id', to_char(now() AT TIME ZONE 'UTC', 'YYYYMMDD-HH24MISS-') || right(gen_random_uuid()::text, 12)
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
