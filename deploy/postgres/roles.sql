-- The roles of the catalog. Run once by a superuser in the catalog's database; running it again changes passwords, and adds
-- what a newer version of it adds:
--
--   psql -d taboot -v owner_password="$OWNER" -v app_password="$APP" -v reader_password="$READER" -f deploy/postgres/roles.sql
--
-- taboot_owner        owns the tables and migrates them      TABOOT_CATALOG_ADMIN_URL
-- taboot_app          what every process logs in as          TABOOT_CATALOG_URL
-- taboot_reader       what a process logs in as that only reads (TABOOT_READ_ONLY): TABOOT_CATALOG_URL there
-- taboot_maintenance  nobody logs in as it: taboot_app becomes it, for one transaction, where namespaces are spanned
--
-- taboot_app and taboot_reader are neither owner nor superuser and inherit nothing, so that row-level security binds them to
-- the namespace of their transaction. No question spans namespaces, so taboot_reader may not become taboot_maintenance.
-- Without a password variable a role is left without a password (peer, certificate or trust).

\set ON_ERROR_STOP on
SET client_min_messages = warning;

SELECT 'CREATE ROLE taboot_maintenance NOLOGIN NOINHERIT'
WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'taboot_maintenance') \gexec
SELECT 'CREATE ROLE taboot_owner LOGIN NOINHERIT'
WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'taboot_owner') \gexec
SELECT 'CREATE ROLE taboot_app LOGIN NOINHERIT'
WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'taboot_app') \gexec
SELECT 'CREATE ROLE taboot_reader LOGIN NOINHERIT'
WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'taboot_reader') \gexec

ALTER ROLE taboot_maintenance NOSUPERUSER NOCREATEDB NOCREATEROLE NOBYPASSRLS NOLOGIN NOINHERIT;
ALTER ROLE taboot_owner NOSUPERUSER NOCREATEDB NOCREATEROLE NOBYPASSRLS LOGIN NOINHERIT;
ALTER ROLE taboot_app NOSUPERUSER NOCREATEDB NOCREATEROLE NOBYPASSRLS LOGIN NOINHERIT;
ALTER ROLE taboot_reader NOSUPERUSER NOCREATEDB NOCREATEROLE NOBYPASSRLS LOGIN NOINHERIT;
-- What PostgreSQL grants to everybody, such as temporary tables, is refused until a session says otherwise.
ALTER ROLE taboot_reader SET default_transaction_read_only = on;

\if :{?owner_password}
ALTER ROLE taboot_owner PASSWORD :'owner_password';
\endif
\if :{?app_password}
ALTER ROLE taboot_app PASSWORD :'app_password';
\endif
\if :{?reader_password}
ALTER ROLE taboot_reader PASSWORD :'reader_password';
\endif

GRANT taboot_maintenance TO taboot_app, taboot_owner;

-- Bulk writes go through a temporary table.
GRANT CONNECT, TEMPORARY ON DATABASE :"DBNAME" TO taboot_owner, taboot_app;
GRANT TEMPORARY ON DATABASE :"DBNAME" TO taboot_maintenance;
GRANT CONNECT ON DATABASE :"DBNAME" TO taboot_reader;
REVOKE CREATE ON SCHEMA public FROM PUBLIC;
GRANT USAGE, CREATE ON SCHEMA public TO taboot_owner;
GRANT USAGE ON SCHEMA public TO taboot_app, taboot_maintenance, taboot_reader;

-- The tables that row-level security binds, where they are there already; those to come are granted as they are migrated.
SELECT format('GRANT SELECT ON %I.%I TO taboot_reader', schemaname, tablename)
FROM pg_policies WHERE policyname = 'taboot_namespace' \gexec
SELECT format('GRANT SELECT ON %s TO taboot_reader', to_regclass('alembic_version'))
WHERE to_regclass('alembic_version') IS NOT NULL \gexec
