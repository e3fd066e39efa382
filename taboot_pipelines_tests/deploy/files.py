"""What stands in the files under ``deploy/``."""

from __future__ import annotations

import yaml

from taboot_pipelines_tests.servers import SERVICES

DEPLOY = SERVICES.parents[1]
COMPOSE = yaml.safe_load((DEPLOY / "compose" / "compose.yaml").read_text())
VALUES = yaml.safe_load((DEPLOY / "kubernetes" / "values.yaml").read_text())
MANIFESTS = [
    m
    for name in ("models.yaml", "secrets.example.yaml")
    for m in yaml.safe_load_all((DEPLOY / "kubernetes" / name).read_text())
]
#: The code location of the Helm values.
LOCATION = VALUES["dagster-user-deployments"]["deployments"][0]
UNITS = sorted((DEPLOY / "celery").glob("*.service"))
