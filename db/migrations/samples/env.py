"""Alembic entry point of the samples database."""

from db.migrations.environment import run
from db.models import SamplesBase

run(SamplesBase.metadata)
