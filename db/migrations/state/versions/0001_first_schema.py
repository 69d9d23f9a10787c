"""The first schema of the state database."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "process",
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=True),
        sa.Column("state", sa.String(length=32), nullable=False),
        sa.Column("started_ms", sa.BigInteger(), nullable=True),
        sa.Column("beat_ms", sa.BigInteger(), nullable=True),
        sa.Column("restarts", sa.Integer(), nullable=False),
        sa.Column("detail", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_process")),
    )


def downgrade() -> None:
    op.drop_table("process")
