"""Alembic entry point of the state database."""

from db.migrations.environment import run
from db.models import StateBase

run(StateBase.metadata)
