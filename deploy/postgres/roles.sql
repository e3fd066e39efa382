-- The roles of the catalog. Run once by a superuser in the catalog's database; running it again changes passwords only:
--
--   psql -d taboot -v owner_password="$OWNER" -v app_password="$APP" -f deploy/postgres/roles.sql
--
-- taboot_owner        owns the tables and migrates them      TABOOT_CATALOG_ADMIN_URL
-- taboot_app          what every process logs in as          TABOOT_CATALOG_URL
-- taboot_maintenance  nobody logs in as it: taboot_app becomes it, for one transaction, where namespaces are spanned
--
-- taboot_app is neither owner nor superuser and inherits nothing, so that row-level security binds it to the namespace of
-- its transaction. Without a password variable a role is left without a password (peer, certificate or trust).

\set ON_ERROR_STOP on
SET client_min_messages = warning;

SELECT 'CREATE ROLE taboot_maintenance NOLOGIN NOINHERIT'
WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'taboot_maintenance') \gexec
SELECT 'CREATE ROLE taboot_owner LOGIN NOINHERIT'
WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'taboot_owner') \gexec
SELECT 'CREATE ROLE taboot_app LOGIN NOINHERIT'
WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'taboot_app') \gexec

ALTER ROLE taboot_maintenance NOSUPERUSER NOCREATEDB NOCREATEROLE NOBYPASSRLS NOLOGIN NOINHERIT;
ALTER ROLE taboot_owner NOSUPERUSER NOCREATEDB NOCREATEROLE NOBYPASSRLS LOGIN NOINHERIT;
ALTER ROLE taboot_app NOSUPERUSER NOCREATEDB NOCREATEROLE NOBYPASSRLS LOGIN NOINHERIT;

\if :{?owner_password}
ALTER ROLE taboot_owner PASSWORD :'owner_password';
\endif
\if :{?app_password}
ALTER ROLE taboot_app PASSWORD :'app_password';
\endif

GRANT taboot_maintenance TO taboot_app, taboot_owner;

-- Bulk writes go through a temporary table.
GRANT CONNECT, TEMPORARY ON DATABASE :"DBNAME" TO taboot_owner, taboot_app;
GRANT TEMPORARY ON DATABASE :"DBNAME" TO taboot_maintenance;
REVOKE CREATE ON SCHEMA public FROM PUBLIC;
GRANT USAGE, CREATE ON SCHEMA public TO taboot_owner;
GRANT USAGE ON SCHEMA public TO taboot_app, taboot_maintenance;
