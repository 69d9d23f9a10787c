"""Alembic's environment for both databases: the connection comes from `db.migrate`, never from a file."""

from alembic import context
from sqlalchemy import MetaData


def run(target_metadata: MetaData) -> None:
    context.configure(
        connection=context.config.attributes["connection"],
        target_metadata=target_metadata,
        render_as_batch=True,  # SQLite cannot alter most things in place
    )
    context.run_migrations()
