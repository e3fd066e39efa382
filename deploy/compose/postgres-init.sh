#!/usr/bin/env bash
# Run once by the postgres image, over an empty data folder: the databases and roles of the catalog and of Dagster.
set -euo pipefail

psql -v ON_ERROR_STOP=1 -U postgres -v dagster_password="$DAGSTER_PG_PASSWORD" <<'SQL'
CREATE ROLE dagster LOGIN PASSWORD :'dagster_password';
CREATE DATABASE dagster OWNER dagster;
CREATE DATABASE taboot;
SQL

psql -U postgres -d taboot -v owner_password="$TABOOT_OWNER_PASSWORD" -v app_password="$TABOOT_APP_PASSWORD" -f /opt/taboot/roles.sql
