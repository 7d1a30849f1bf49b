"""The grid of the contracts, within the test's process."""

from __future__ import annotations

from flwr.supercore.task_identity import TaskIdentity

from counterpoise.contracts.local_grid import FIRST_NODE as FIRST_NODE
from counterpoise.contracts.local_grid import RUN as RUN
from counterpoise.contracts.local_grid import LocalGrid as LocalGrid
from counterpoise.contracts.local_grid import join as join
from counterpoise.contracts.local_grid import over_flower as over_flower
from counterpoise.contracts.local_grid import seats_of as seats_of

TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1
