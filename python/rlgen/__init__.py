"""Rollouts for reinforcement learning of language models.

This package reads what the command line `rlgen` writes; it needs neither a compiler nor any other
package.
"""

from rlgen.rollouts import Rollout, RolloutError, RolloutFormatError, VersionSpan, read_rollouts

__all__ = ["Rollout", "RolloutError", "RolloutFormatError", "VersionSpan", "__version__", "read_rollouts"]
__version__ = "0.1.0"
