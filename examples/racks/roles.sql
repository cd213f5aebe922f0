-- Roles for a database with results and jobs, made by its owner after `tunnelbench jobs --setup`:
--
--   psql service=NAME -v ON_ERROR_STOP=1 -f roles.sql
--
-- Give them to the users of people and racks: GRANT tunnelbench_work TO attic;
BEGIN;
-- Before PostgreSQL 15, every user could make functions here, which other users would call by mistake.
REVOKE CREATE ON SCHEMA public FROM PUBLIC;

CREATE ROLE tunnelbench_read NOLOGIN;
CREATE ROLE tunnelbench_submit NOLOGIN IN ROLE tunnelbench_read;
CREATE ROLE tunnelbench_work NOLOGIN IN ROLE tunnelbench_read;

-- read: list jobs and runs, make reports
GRANT SELECT ON ALL TABLES IN SCHEMA public TO tunnelbench_read;

-- submit: also submit, cancel and retry jobs, and make and remove schedules
GRANT INSERT, UPDATE ON procrastinate_jobs TO tunnelbench_submit;
GRANT INSERT ON procrastinate_events TO tunnelbench_submit;
GRANT DELETE ON tunnelbench_job_failure TO tunnelbench_submit;
GRANT INSERT, DELETE ON tunnelbench_schedule TO tunnelbench_submit;
GRANT USAGE ON SEQUENCE procrastinate_jobs_id_seq, procrastinate_events_id_seq TO tunnelbench_submit;

-- work: also take and cancel jobs, and store results; it submits no job, changes the plan of none, and deletes no
-- result. The function makes the jobs that a schedule names, when they are due.
GRANT EXECUTE ON FUNCTION tunnelbench_take_due TO tunnelbench_work;
GRANT UPDATE (status, worker_id, attempts, scheduled_at, priority, queue_name, lock, abort_requested)
    ON procrastinate_jobs TO tunnelbench_work;
GRANT INSERT ON procrastinate_events TO tunnelbench_work;
GRANT INSERT, UPDATE ON tunnelbench_job_failure TO tunnelbench_work;
GRANT INSERT, UPDATE, DELETE ON procrastinate_workers TO tunnelbench_work;
GRANT USAGE ON SEQUENCE procrastinate_events_id_seq TO tunnelbench_work;
GRANT INSERT, UPDATE ON run, proof, trial, trial_raw, cipher_speed, soak_part, soak_chunk, progress TO tunnelbench_work;
COMMIT;
